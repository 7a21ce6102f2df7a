# Earners in the 2000 census, five per cent sample (29,501 rows): schooling, experience and income by state.
language 1

schema {
  state    : category {"Alabama", "Alaska", "Arizona", "Arkansas", "California", "Colorado", "Connecticut", "Delaware", "District of Columbia", "Florida", "Georgia", "Hawaii", "Idaho", "Illinois", "Indiana", "Iowa", "Kansas", "Kentucky", "Louisiana", "Maine", "Maryland", "Massachusetts", "Michigan", "Minnesota", "Mississippi", "Missouri", "Montana", "Nebraska", "Nevada", "New Hampshire", "New Jersey", "New Mexico", "New York", "North Carolina", "North Dakota", "Ohio", "Oklahoma", "Oregon", "Pennsylvania", "Rhode Island", "South Carolina", "South Dakota", "Tennessee", "Texas", "Utah", "Vermont", "Virginia", "Washington", "West Virginia", "Wisconsin", "Wyoming"} drop
  educ     : integer 0..20 clip
  exper    : integer 0..60 clip
  lweekinc : numeric [-2, 4, 5, 5.5, 6, 6.25, 6.5, 6.75, 7, 7.25, 7.5, 8, 9, 12] clip  # log of weekly income
}

workload {
  everything  : each 1..3 of all
  by_state    : marginal(state) * range(lweekinc)
  life_so_far : affine(educ + exper <= *) weight 2
  middle      : count(lweekinc in 6..7.25 and educ >= 16)
}
