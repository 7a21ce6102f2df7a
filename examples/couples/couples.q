# Married couples in the May 1991 Current Population Survey (5,634 rows).
# The ranges are what the questions can have as answers; nothing here was read off the table.
language 1

schema {
  husage : integer 18..70 clip  # years; the few who are older count as 70
  age    : integer 18..70 clip  # the wife
  hushrs : integer 0..99 clip  # hours worked a week
  hours  : integer 0..99 clip
  educ   : integer 0..18 clip  # years of schooling
  faminc : numeric [0, 5000, 10000, 15000, 20000, 25000, 30000, 40000, 50000, 75000, 150000] clip
  kidlt6 : category {0, 1} drop  # has children under six
}

workload {
  couples           : total
  ages              : prefix(husage) * prefix(age)
  age_gap           : abs(husage - age <= *)
  older_wives       : affine(husage - age <= *)
  work_time         : affine(hours + hushrs <= *) * marginal(kidlt6)
  incomes           : range(faminc) * marginal(kidlt6)
  schooling         : prefix(educ) * prefix(faminc)
  hours_worked      : each 1..2 of (hours: range, age: prefix, kidlt6: marginal) weight 0.01
  mothers_full_time : count(hours >= 35 and kidlt6 = 1)
}
