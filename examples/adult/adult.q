# The Adult table: an extract of the 1994 Current Population Survey, as it is passed around, with all its oddities.
#
# Every domain is taken from what is public: the survey's code book and the rule of the extract (people over 16 with an
# income and hours of work). Two columns of the file are left out. `education-num` is `education` once more, as a number.
# `fnlwgt` is the weight of a sampled person: here each person counts once.
language 1

schema {
  # The extract begins at 17, and 90 stands for "90 or more" in the survey: clip does the same to whatever is beyond.
  age               : integer 17..90 clip

  # "?" is how the file writes that nothing is known. It is text, and no null. All three columns that have it get one
  # more cell, which takes nulls, empty texts and misspelt labels, too. With drop, whoever gave no occupation would
  # leave all tables, that of the ages as well; as a label of its own, "?" would stand beside a cell that means the same.
  workclass         : category {"Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov", "Without-pay", "Never-worked"} other "missing"
  occupation        : category {"Exec-managerial", "Prof-specialty", "Tech-support", "Sales", "Adm-clerical", "Protective-serv", "Priv-house-serv", "Other-service", "Craft-repair", "Machine-op-inspct", "Transport-moving", "Handlers-cleaners", "Farming-fishing", "Armed-Forces"} other "missing"
  # Spelt as in the file.
  `native-country`  : category {"United-States", "Cambodia", "Canada", "China", "Columbia", "Cuba", "Dominican-Republic", "Ecuador", "El-Salvador", "England", "France", "Germany", "Greece", "Guatemala", "Haiti", "Holand-Netherlands", "Honduras", "Hong", "Hungary", "India", "Iran", "Ireland", "Italy", "Jamaica", "Japan", "Laos", "Mexico", "Nicaragua", "Outlying-US(Guam-USVI-etc)", "Peru", "Philippines", "Poland", "Portugal", "Puerto-Rico", "Scotland", "South", "Taiwan", "Thailand", "Trinadad&Tobago", "Vietnam", "Yugoslavia"} other "missing"

  # The survey office fills in these itself where an answer is missing. A row without one of its codes is damaged and
  # belongs to nobody, so it leaves all counts. In this order, prefix(education) is "at most so much schooling".
  education         : category {"Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"} drop
  `marital-status`  : category {"Never-married", "Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent", "Separated", "Divorced", "Widowed"} drop
  relationship      : category {"Husband", "Wife", "Own-child", "Other-relative", "Not-in-family", "Unmarried"} drop
  race              : category {"White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"} drop
  sex               : category {"Female", "Male"} drop

  # Most people have no gain: zero gets a bin of its own, [0, 1), as amounts are whole dollars. So does 99999, which the
  # survey writes for "more than can be told". The edges between are round numbers, not quantiles of the data. Clip puts
  # what is below zero into the bin of zero.
  `capital-gain`    : numeric [0, 1, 1000, 2500, 5000, 7500, 10000, 15000, 25000, 99999, 100000) clip
  `capital-loss`    : numeric [0, 1, 1000, 1500, 2000, 2500, 5000) clip

  # 99 stands for "99 or more".
  `hours-per-week`  : integer 1..99 clip

  # What the extract was made for. Who has no value here is not part of the study.
  `income-per-year` : category {"<=50K", ">50K"} drop
}

workload {
  people    : total
  tables    : each 1..2 of (age: prefix, `hours-per-week`: prefix, education: prefix, workclass: marginal, occupation: marginal, `native-country`: marginal, `marital-status`: marginal, relationship: marginal, race: marginal, sex: marginal, `capital-gain`: marginal, `capital-loss`: marginal, `income-per-year`: marginal)
  schooling : marginal(age, education) weight 2
  earnings  : marginal(occupation, sex, `income-per-year`) weight 2
  full_time : count(`hours-per-week` >= 35 and sex = "Female" and age in 25..54) weight 10
}
