"""Errors by example: pieces of wrong text, with a message and a remedy for each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    """The error and its remedy.

    Attributes:
      message: ``{found}`` stands for the offending token.
      hint: ``{words}`` stands for the words around it, from the one before; ``{these}`` for those from itself on.
    """

    message: str
    hint: str


def _schema(*lines: str) -> tuple[str, ...]:
    return tuple(f"schema {{ {line} }}" for line in lines)


def _schema_line(*lines: str) -> tuple[str, ...]:
    return tuple(f"schema {{ {line}\n }}" for line in lines)


def _workload(*lines: str) -> tuple[str, ...]:
    """Each line unnamed and named, because the parser is in different states there."""
    return tuple(f"workload {{ {prefix}{line} }}" for line in lines for prefix in ("", "x : "))


def _workload_line(*lines: str) -> tuple[str, ...]:
    return tuple(f"workload {{ {prefix}{line}\n }}" for line in lines for prefix in ("", "x : "))


_KINDS = ("marginal", "prefix", "range", "circular")
_STARTS = ("total", "abs(a)", "affine(a)", "random(a)", "matrix(a)", "count(a)", "each 2", *(f"{k}(a)" for k in _KINDS))

TOP = {
    Advice("{found} is outside of the blocks", "a file is language 1, schema { ... } and workload { ... }"): (
        ": a",
        "= a",
        "1",
        '"a"',
        "(",
        "[",
        "{",
        "*",
        "`a`",
    ),
    Advice("this '}' closes nothing", "remove it, or add the '{' it belongs to"): (
        "}",
        "language 1\n}",
        "schema {}}",
        "workload {}}",
        "schema { a : integer 0..9 }}",
        "workload { total }}",
        "schema { a : integer 0..9\n}}",
    ),
    Advice("'{' is missing after the name of the block", "write schema { ... } and workload { ... }"): (
        "schema a",
        "schema read_from_data a",
        "schema read_from_data",
        "schema : {",
        "schema = {",
        "schema (",
        "schema [",
        "schema }",
        "schema ;",
        "workload a",
        "workload : {",
        "workload = {",
        "workload (",
        "workload [",
        "workload }",
        "workload ;",
        "schema",
        "workload",
    ),
    Advice("the version of the language is a number", "write language 1"): (
        "language\n",
        'language "1"',
        "language a",
        "language = 1",
        "language : 1",
        "language schema {",
    ),
    Advice("a new line is missing after the version", "write language 1 on a line of its own"): (
        "language 1 schema {",
        "language 1 workload {",
        "language 1 a",
    ),
}

SCHEMA = {
    Advice("':' is missing between the attribute's name and its domain", "write name : integer 0..9"): (
        *_schema(
            "a integer 0..9",
            "a numeric [0, 1]",
            'a category {"x"}',
            "a 0..9",
            "a {",
            "a [",
            "a (",
        ),
        *_schema('a "x"', "a"),
        *_schema_line("a"),
    ),
    Advice(
        "':' is missing between the attribute's name and its domain",
        "write name : integer 0..9; a name of several words goes in backquotes: `{words}`",
    ): _schema("a b : integer 0..9", "a b"),
    Advice("an attribute has a statement of its own", "write a : integer 0..9; b : integer 0..9"): _schema(
        "a, b : integer 0..9", "a, b"
    ),
    Advice("'=' does not declare", "write ':' between a name and its definition"): (
        *_schema("a = integer 0..9"),
        "workload { x = total }",
    ),
    Advice("a name with characters other than letters, digits and _ goes in backquotes", "write `a-b`"): (
        *_schema("a-b : integer 0..9", "a/b : integer 0..9", "a*b : integer 0..9", "a+b : integer 0..9"),
        "workload { a-b : total }",
        "workload { x : prefix(a-b) }",
        "workload { prefix(a-b) }",
    ),
    Advice("a name is not written in double quotes", "write it plainly, or in backquotes"): (
        *_schema('"a" : integer 0..9'),
        *_workload('prefix("a")', 'each 1 of ("a")', 'each 1 of (a, "b")'),
        'workload { "a" : total }',
    ),
    Advice("the name of the attribute is missing", "write name : integer 0..9"): _schema(": integer 0..9"),
    Advice("the kind of domain is missing", 'write integer 0..9, numeric [0, 10, 20] or category {"no", "yes"}'): (
        *_schema("a : 0..9", "a : [0, 1]", 'a : {"x"}', "a : -1..1", 'a : "x"', "a :", "a : 0.5", "a : ("),
        *_schema_line("a :"),
    ),
    Advice("'..' is missing between the ends of the interval", "write integer 0..9"): _schema(
        "a : integer 0-9",
        "a : integer 0 9",
        "a : integer 0:9",
        "a : integer 0, 9",
        "a : integer 0",
        "a : integer 0 9.5",
    )
    + _schema_line("a : integer 0"),
    Advice("an integer domain is two numbers", "write integer 0..9"): (
        *_schema("a : integer [0, 9]", "a : integer {0}", "a : integer (0, 9)", "a : integer", "a : integer clip"),
        *_schema("a : integer 0..", "a : integer ..9", "a : integer 0..b", "a : integer b..9", 'a : integer "0"'),
        *_schema_line("a : integer", "a : integer 0.."),
    ),
    Advice(
        "a numeric domain is its bin edges in square brackets", "write numeric [0, 10, 20] or numeric [0, 10, 20)"
    ): (
        *_schema("a : numeric 0, 5", "a : numeric {0, 5}", "a : numeric (0, 5]", "a : numeric", "a : numeric []"),
        *_schema("a : numeric [)", "a : numeric [b]", 'a : numeric ["0"]', "a : numeric -1", "a : numeric 0.5"),
        *_schema("a : numeric [0..5]", "a : numeric clip"),
        *_schema_line("a : numeric"),
    ),
    Advice("a category domain is its labels in braces", 'write category {"no", "yes"}'): (
        *_schema('a : category "x"', 'a : category ["x"]', 'a : category ("x")', "a : category", "a : category 0..1"),
        *_schema("a : category {}", "a : category b", "a : category {0..1}"),
        *_schema_line("a : category"),
    ),
    Advice("',' is missing", "labels, edges and names are separated by commas"): (
        *_schema('a : category {"x" "y"}', 'a : category {"x" 1}', "a : category {1 true}", "a : category {1 false}"),
        *_schema('a : category {"x" y}', "a : numeric [0 5]", "a : numeric [0 5.5]", 'a : category {"x"; "y"}'),
        *_schema("a : category {1 -2}", "a : category {1 2.5}", "a : numeric [0; 5]", "a : numeric [0 -5]"),
        *_workload("prefix(a b)", "prefix(a; b)", "each 1 of (a b)", "each 1 of (a; b)", "each 1 of (a : prefix b)"),
        *_workload("count(a in {1 2})", 'count(a in {1 "x"})', "count(a in {1; 2})", "affine(a + b <= {1 2})"),
        *_workload("affine(a + b <= {1; 2})", "random(a; p = 1 count = 2)", "random(a; p = 1; count = 2)"),
    ),
    Advice("a ',' has nothing before or after it", "remove it"): (
        *_schema(
            'a : category {"x",}',
            'a : category {,"x"}',
            "a : numeric [0, 5,]",
            "a : numeric [0,,5]",
            "a : numeric [,0]",
        ),
        *_schema("a : numeric [0, 5,)", 'a : category {"x",,"y"}'),
        *_workload("prefix(a,)", "prefix(,a)", "prefix(a,,b)", "each 1 of (a,)", "each 1 of (,a)", "count(a in {1,})"),
        *_workload(
            "affine(a + b <= {1,})", "affine(a + b <= {,1})", "random(a; p = 1,)", "random(a;)", "random(a,; p = 1)"
        ),
    ),
    Advice("a text label is written in double quotes", 'did you mean "{these}"?'): (
        *_schema("a : category {yes, no}", 'a : category {"x", no}', "a : category {`x`}"),
        *_workload("count(a in {yes})", 'count(a in {"x", yes})', "count(a in {`x`})"),
    ),
    Advice("'other' takes the label of its cell in double quotes", 'write other "unknown"'): (
        *_schema("a : integer 0..9 other unknown", "a : integer 0..9 other", "a : integer 0..9 other clip"),
        *_schema("a : integer 0..9 other 1", "a : integer 0..9 other ("),
        *_schema_line("a : integer 0..9 other"),
    ),
    Advice("statements are not separated by ','", "end each with a new line or ';'"): (
        *_schema("a : integer 0..9, b", "a : numeric [0, 1], b", "a : numeric [0, 1), b", 'a : category {"x"}, b'),
        *_schema("a : integer 0..9 clip, b", 'a : integer 0..9 other "x", b'),
        "workload { total weight 2, total }",
    ),
    Advice("a modifier is a single word", 'write clip, drop, cyclic or other "label" after the domain'): (
        *_schema("a : integer 0..9 (", "a : integer 0..9 :", "a : integer 0..9 =", "a : integer 0..9 ["),
        *_schema('a : integer 0..9 "x"', "a : integer 0..9 step 2", "a : integer 0..9 {"),
    ),
}

FAMILIES = {
    Advice("':' is missing between the family's name and its queries", "write name : prefix(age)"): (
        *(f"workload {{ x {start} }}" for start in _STARTS),
        "workload { x\n }",
        "workload { x }",
        "workload { x; total }",
        "workload { x * prefix(a) }",
        "workload { x, total }",
    ),
    Advice("the queries of this family are missing", "write for instance name : prefix(age)"): (
        "workload { x :\n }",
        "workload { x : }",
        "workload { x : ; }",
    ),
    Advice("attributes are given in round brackets", "write prefix(age) or marginal(age, sex)"): (
        *_workload(*(f"{kind} a" for kind in _KINDS), *(f"{kind} `a`" for kind in _KINDS)),
        *_workload(*(f"{kind} [a]" for kind in _KINDS), *(f"{kind} {{a}}" for kind in _KINDS)),
        *_workload(*(f"{kind}" for kind in _KINDS), *(f"{kind} * total" for kind in _KINDS)),
        *_workload_line(*(f"{kind}" for kind in _KINDS)),
    ),
    Advice("the attributes are missing", "write prefix(age) or marginal(age, sex)"): _workload(
        "prefix()", "random()", "random(; p = 1)", "matrix()", 'matrix(; "x.npy")'
    ),
    Advice(
        "attributes, not numbers, are listed here", "write prefix(age); the options of random follow a ';'"
    ): _workload("prefix(1)", "prefix(a, 1)", "random(a, 200, 7)"),
    Advice(
        "a text does not belong in a list of attributes", "write names without quotes; the file of a matrix follows ';'"
    ): (_workload('prefix(a, "b")', 'matrix(a, "x.npy")')),
    Advice(
        "a prefix or marginal takes names only", "conditions belong in count(...), thresholds in affine(...)"
    ): _workload(
        "prefix(a <= 1)",
        "prefix(a = 1)",
        "prefix(a < 1)",
        "prefix(a >= 1)",
        "prefix(a > 1)",
        "prefix(a in 1..2)",
        "prefix(a : b)",
        "prefix(a + b)",
        "prefix(a * b)",
        "prefix(a..b)",
    ),
    Advice("factors are multiplied with '*'", "write prefix(a) * marginal(b); put another family on its own line"): (
        *_workload(*(f"prefix(a) {start}" for start in _STARTS)),
        *_workload("prefix(a), prefix(b)", "total, total", "total prefix(a)"),
        *_workload("count(a = 1), total", "affine(a + b), total", "random(a; p = 1), total", 'matrix(a; "x"), total'),
    ),
    Advice(
        "{found} does not fit after a factor", "factors are joined with '*'; for a table of both write marginal(a, b)"
    ): (
        _workload(
            *(f"{start} x" for start in ("total", "prefix(a)", "affine(a + b)", "random(a; p = 1)", "count(a = 1)"))
        )
    ),
    Advice("families are not added with '+'", "put each on its own line; all of them are answered"): _workload(
        "prefix(a) + prefix(b)", "total + total", "affine(a + b) + total", "count(a = 1) + total"
    ),
    Advice("'**' does not multiply factors", "write '*'"): _workload("prefix(a) ** prefix(b)", "total ** total"),
    Advice("a factor is missing beside '*'", "write prefix(a) * marginal(b)"): (
        *_workload("prefix(a) *", "* prefix(a)", "prefix(a) * 2", "2 * prefix(a)"),
        *_workload_line("prefix(a) *"),
    ),
    Advice("'weight' takes a number", "write weight 2"): (
        *_workload("total weight", "total weight = 2", "total weight : 2", "total weight x", "total weight (2)"),
        *_workload('total weight "2"', "total weight;", "total weight *"),
        *_workload_line("total weight"),
    ),
    Advice("nothing can follow the weight", "end the statement with a new line or ';'"): _workload(
        "total weight 2 total",
        "total weight 2 prefix(a)",
        "total weight 2 x",
        "total weight 2 * prefix(a)",
        "total weight 1/2",
        "total weight 2 2",
        "total weight 2 weight 3",
        "total weight 2 %",
        "total weight 2 max",
    ),
    Advice("'target' takes a standard error", "write target 5, target 2 % or target 5 max"): (
        *_workload("total target", "total target = 2", "total target : 2", "total target x", "total target (2)"),
        *_workload('total target "2"', "total target;", "total target *", "total target max", "total target %"),
        *_workload_line("total target"),
    ),
    Advice(
        "{found} cannot follow a target", "write weight 2 target 5 %, or target 5 max, then a new line or ';'"
    ): _workload(
        *(
            f"total target 2{middle} {rest}"
            for middle in ("", " %", " max", " % max")
            for rest in ("total", "prefix(a)", "x", "* prefix(a)", "2", "weight 2", "target 3", "= 2", "(", '"x"')
        ),
        "total target 2 max %",
        "total target 2 % %",
        "total target 2 max max",
        "total target 1/2",
    ),
    Advice("the threshold belongs inside the brackets", "write affine(a + b <= 3) or abs(a - b <= 3)"): _workload(
        *(f"{kind} {sign} 3" for kind in ("affine(a + b)", "prefix(a)") for sign in ("<=", "<", ">=", ">", "=", "!="))
    ),
    Advice("these brackets close nothing", "remove one, or add the opening bracket"): _workload(
        "prefix(a))", "prefix(a)]", "total)", "affine(a + b))", "count(a = 1))", 'matrix(a; "x"))', "each 1 of (a))"
    ),
    Advice("an expression does not begin here", "write for instance name : prefix(age) * marginal(sex)"): _workload(
        "(prefix(a))", "[prefix(a)]", "{prefix(a)}", "= total"
    ),
}

EACH = {
    Advice("'of' is missing", "write each 2 of (a, b, c) or each 1..3 of all"): _workload(
        "each 2 (a, b)", "each 1..2 (a, b)", "each 2 a", "each 2 all", "each 2", "each 1..2"
    )
    + _workload_line("each 2"),
    Advice("the sizes of the subsets are missing", "write each 2 of (...) or each 1..3 of (...)"): _workload(
        "each of (a, b)", "each (a, b)", "each a", "each all", "each ..2 of all", "each 1.. of all", "each"
    )
    + _workload_line("each"),
    Advice("'..' is written between the smallest and largest size", "write each 1..3 of (...)"): _workload(
        "each 1-3 of all", "each 1, 3 of all", "each 1:3 of all", "each 1 3 of all", "each 1, 2 of (a)"
    ),
    Advice(
        "the attributes of 'each' are given in round brackets", "write each 2 of (a, b, c) or each 2 of all"
    ): _workload(
        "each 2 of a, b", "each 2 of {a}", "each 2 of [a]", "each 2 of prefix(a)", "each 2 of", "each 2 of `a`"
    )
    + _workload_line("each 2 of"),
    Advice(
        "'each' lists attributes, each with the word for its factor", "write each 2 of (age: prefix, sex: marginal)"
    ): _workload(
        "each 1 of (prefix(a))",
        "each 1 of (a: prefix(a))",
        "each 1 of (a = prefix)",
        "each 1 of (a * b)",
        "each 1 of ()",
        "each 1 of (a: )",
        "each 1 of (1)",
        "each 1 of (a: 1)",
        'each 1 of (a: "prefix")',
        "each 1 of (a, prefix(b))",
    ),
    Advice(
        "'each' is not multiplied", "list every attribute inside its brackets, or write the products one by one"
    ): _workload("each 1 of all * prefix(a)", "each 1 of (a) * prefix(b)", "prefix(a) * each 1 of all"),
}

FORMS = {
    Advice("attributes belong on the left of a threshold", "write affine(a - b <= 0), with one comparison"): _workload(
        "affine(a <= b)",
        "affine(10 >= a + b)",
        "affine(a + b <= {c})",
        "affine(a <= `b`)",
        "affine(a + b <= -c)",
        "affine(a + b <= 2*c)",
        "affine(a <= 2 + b)",
    ),
    Advice("the threshold is missing", "write <= 3, <= {0, 5, 10}, <= 0..100 step 10, or <= * for all"): _workload(
        "affine(a + b <= )",
        "affine(a + b >= )",
        "affine(a + b <= {})",
        "affine(a + b <= 1..)",
        "affine(a + b <= ,)",
        "affine(a + b < )",
        "affine(a + b > )",
        "affine(a + b <= {1..})",
    ),
    Advice("several thresholds are listed in braces", "write <= {0, 5, 10} or <= 0..100 step 10"): _workload(
        "affine(a + b <= (1, 2))", "affine(a + b <= [1, 2])", "affine(a + b <= 1, 2)"
    ),
    Advice("spaced thresholds are written with 'step'", "write <= 0..100 step 10"): _workload(
        "affine(a + b <= 0..9 by 2)",
        "affine(a + b <= 0..9 step)",
        "affine(a + b <= 0..9 step x)",
        "affine(a + b <= 0..9 2)",
        "affine(a + b <= 1 step 2)",
        "affine(a + b <= 0..9:2)",
        "affine(a + b <= 0..9..2)",
    ),
    Advice("the '*' of a multiplication is missing", "write 2*a"): _workload(
        "affine(2 a + b)",
        "affine(2 (a + b))",
        "affine(a (b))",
        "affine((a) b)",
        "affine((a) (b))",
        "affine(a b)",
        "affine(2 `a`)",
        "affine(a 2)",
        "affine((a) 2)",
    ),
    Advice("attributes are combined with '+' and '-'", "write affine(a + b <= *) or abs(a - b <= *)"): _workload(
        "affine(a, b)", "affine(a; b)", "abs(a, b)", "affine(a and b)", "affine(a in 1..2)"
    ),
    Advice("one comparison per family", "write affine(a + b <= {3, 5}) for several thresholds"): _workload(
        "affine(a + b <= 3 <= 5)",
        "affine(a <= 3 and b <= 3)",
        "affine(a + b = = 3)",
        "affine(a + b < = 3)",
        "affine(a + b > = 3)",
        "affine(a + b <= 3 or a)",
        "affine(a + b <= 3 = 3)",
    ),
    Advice("part of the form is missing", "write affine(a + b <= *)"): _workload(
        "affine()",
        "affine(a + )",
        "affine(a + <= 3)",
        "affine(<= 3)",
        "affine(a + * b)",
        "affine(a * )",
        "affine(- )",
        "affine(a - - b)",
        "affine(a + + b)",
        "affine(a * - b)",
        "affine(())",
        "affine(a / )",
        "affine(a ^ )",
    ),
    Advice("an exponent is a number", "forms are sums of integer multiples of attributes, such as 2*a - b"): _workload(
        "affine(a ^ b)", "affine(a ** b)", "affine(a ^ (2))"
    ),
    Advice("the form is given in round brackets", "write affine(a + b <= *) or abs(a - b <= *)"): (
        *_workload(
            *(f"{k} {rest}" for k in ("affine", "abs") for rest in ("a", "[a]", "{a}", "", "<= 3", "2*a", "* total"))
        ),
        *_workload(*(f"{k} {rest}" for k in ("affine", "abs") for rest in ("`a`", "; total", "weight 2", "- a"))),
        *_workload_line("affine", "abs"),
    ),
    Advice("a form has no texts", "it is a sum of integer multiples of attributes"): _workload(
        'affine("a" + b)', 'affine(a + "b")', 'affine(a + b <= "3")'
    ),
}

OPTIONS = {
    Advice("options follow the attributes after ';'", "write random(a, b; p = 0.3, count = 200, seed = 7)"): _workload(
        "random(a, p = 0.3)",
        "random(p = 0.3)",
        "random(a p = 0.3)",
        "random(a, 0.3)",
        "random(0.3)",
        "random(a : p)",
    ),
    Advice("an option is written name = number", "write p = 0.3, count = 200, seed = 7"): _workload(
        "random(a; p : 0.3)",
        "random(a; p 0.3)",
        "random(a; 0.3)",
        "random(a; p)",
        "random(a; p = )",
        "random(a; p = x)",
        'random(a; p = "x")',
        "random(a; p = 1, 2)",
        "random(a; p == 1)",
        "random(a; p <= 1)",
        'random(a; "p" = 1)',
        "random(a; p, count)",
        'random(a; "x")',
        "random(a; p = *)",
    ),
    Advice("';' is missing between the attributes and the file", 'write matrix(a, b; "strategy.npy")'): _workload(
        'matrix(a "x.npy")', 'matrix("x.npy")', "matrix(a)", "matrix(a, b)"
    ),
    Advice("the file is written in double quotes", 'write matrix(a, b; "strategy.npy")'): _workload(
        "matrix(a; x)", "matrix(a; )", "matrix(a; 1)", "matrix(a; `x`)", "matrix(a; /x)", "matrix(a; file = 1)"
    ),
    Advice("a matrix factor has one file", 'write matrix(a, b; "strategy.npy")'): _workload(
        'matrix(a; "x", "y")', 'matrix(a; "x" "y")', 'matrix(a; "x"; "y")'
    ),
    Advice("round brackets are missing", 'write random(a; p = 0.3, count = 200, seed = 7) or matrix(a; "file.npy")'): (
        *_workload(
            *(f"{k} {rest}" for k in ("random", "matrix") for rest in ("a", "[a]", "{a}", "", '"x"', "`a`", "; total"))
        ),
        *_workload_line("random", "matrix"),
    ),
}

PREDICATES = {
    Advice("equality is written with one '='", "write a = 1"): _workload("count(a = = 1)", "count(a != = 1)"),
    Advice("this comparison is spelled differently", "write <=, >=, or != for unequal"): _workload(
        "count(a = < 1)", "count(a = > 1)", "count(a <> 1)", "count(a > < 1)", "count(a < = 1)", "count(a > = 1)"
    ),
    Advice("the comparison is missing", "write a = 1, a <= 5, a in 1..5 or a in {1, 2}"): _workload(
        "count(a)",
        "count(a and b = 1)",
        "count(a or b = 1)",
        "count(a 1)",
        'count(a "x")',
        "count(a b)",
        "count((a))",
        "count(1)",
        "count(a, b)",
        "count(a : 1)",
        "count(a; b)",
        "count(true)",
        "count(a {1})",
        "count(a (1))",
        "count(a..1)",
    ),
    Advice(
        "{found} does not fit after the comparison",
        'did you mean "{words}"? Text goes in double quotes; conditions are joined with and',
    ): _workload("count(a = b c)", "count(a != b c)", "count(a <= b c)"),
    Advice("one side of the comparison is missing", "write a = 1"): _workload(
        "count(a = )",
        "count(= 1)",
        "count(a <= )",
        "count(a = and b = 1)",
        "count(a < )",
        "count(a >= )",
        "count(a > )",
        "count(a != )",
        "count(a = or b = 1)",
        "count(<= 1)",
        "count(< 1)",
        "count(>= 1)",
        "count(> 1)",
        "count(!= 1)",
        "count(a = not 1)",
        "count(a = (1))",
        "count(a = {1})",
        "count(a = [1])",
        "count(a = *)",
    ),
    Advice("comparisons are not chained", "write a in 18..65, or a >= 18 and a <= 65"): _workload(
        *(f"count(18 <= a {sign} 65)" for sign in ("<=", "<", ">=", ">", "=", "!=")), "count(18 <= a in 1..2)"
    ),
    Advice("'and' or 'or' is missing between two conditions", "write a = 1 and b = 2"): _workload(
        "count(a = 1 b = 2)",
        "count(a = 1, b = 2)",
        "count(a = 1 not b = 2)",
        "count((a = 1) (b = 2))",
        "count((a = 1) b = 2)",
        "count(a = 1 (b = 2))",
        "count(a = 1; b = 2)",
        "count(a in 1..2 b = 2)",
        "count(a in {1} b = 2)",
        'count(a = "x" "y")',
        "count(a = 1 2)",
        "count((a = 1) not b = 2)",
        "count(a in {1} not b = 2)",
        "count(a in {1}, b = 2)",
        "count((a = 1), b = 2)",
        "count(a = 1 `b` = 2)",
        "count((a = 1) `b` = 2)",
        "count(a in {1} `b` = 2)",
    ),
    Advice("the condition is missing", "write count(a = 1 and b <= 5)"): _workload(
        "count()",
        "count(a = 1 and)",
        "count(a = 1 or)",
        "count(not)",
        "count(())",
        "count(a = 1 and and b = 2)",
        "count(a = 1 or or b = 2)",
        "count(a = 1 and or b = 2)",
        "count(*)",
        "count(a = 1 or and b = 2)",
    ),
    Advice("'not' belongs before the whole condition", "write not a in {1, 2}"): _workload(
        "count(a not in {1})", "count(a not = 1)"
    ),
    Advice("a set is written in braces, an interval with '..'", "write a in {1, 2} or a in 18..65"): _workload(
        "count(a in (1, 2))",
        "count(a in [1, 2])",
        "count(a in 1, 2)",
        "count(a in 1)",
        "count(a in )",
        "count(a in {})",
        "count(a in 1-5)",
        "count(a in 1 and b = 2)",
        "count(a in 1:5)",
        "count(a in 1 5)",
        "count(a in 1..)",
        "count(a in {1..5})",
        "count(a in *)",
        "count(a in {1-5})",
        "count(a in = 1)",
        "count(a in 1 or b = 2)",
        "count(a in not 1)",
        "count(a in {1:2})",
        "count(a in {*})",
        "count(a in 1..{2})",
    ),
    Advice(
        "conditions compare attributes, they do not calculate",
        "use affine(a + b <= 3) for sums and abs(a - b <= 3) for distances",
    ): _workload(
        "count(a + b <= 3)",
        "count(a - b <= 3)",
        "count(a * 2 <= 3)",
        "count(a / 2 <= 3)",
        "count(a <= b + 1)",
        "count(a <= b * 2)",
        "count(a <= b - 1)",
        "count(a <= b / 2)",
        "count(a ^ 2 <= 3)",
        "count(a ** 2 <= 3)",
        "count((a + b) <= 3)",
        "count(1 + a = 2)",
    ),
    Advice("the condition is given in round brackets", "write count(a = 1 and b <= 5)"): _workload(
        "count a = 1", "count [a = 1]", "count {a = 1}", "count", "count `a` = 1", "count = 1"
    )
    + _workload_line("count"),
}

EXAMPLES: dict[Advice, tuple[str, ...]] = {
    **TOP,
    **SCHEMA,
    **FAMILIES,
    **EACH,
    **FORMS,
    **OPTIONS,
    **PREDICATES,
}
"""Wrong texts by the advice they call for; where two share a parser state and token, the first one counts."""

QUERIES: dict[Advice, tuple[str, ...]] = {
    Advice("one query is asked at a time", "ask a single expression, without name and weight"): (
        *(
            f"{first}{rest}"
            for first in ("total", "prefix(a)", "total * total", "count(a = 1)", "affine(a + b)")
            for rest in (" total", "; total", "\ntotal", *(f" {start}" for start in _STARTS))
        ),
        *(
            f"{first}{rest}"
            for first in ("total", "prefix(a)", "count(a = 1)", "affine(a + b)")
            for rest in (" weight 2", ", total", " + total", " : a", "}")
        ),
        "each 1 of all * total",
        "each 1 of all total",
        "each 1 of (a) total",
    ),
    Advice(
        "{found} does not fit after a query", "conditions are joined inside the brackets: count(a = 1 and b = 2)"
    ): tuple(
        f"{first}{rest}"
        for first in ("total", "prefix(a)", "count(a = 1)", "affine(a + b)")
        for rest in (" x", " and b = 1", " or b = 1", " in 1..2")
    ),
    Advice("the query is missing", "ask for instance count(age in 18..65), or total"): ("# nothing", ";"),
}
"""The same for queries that are asked of a release."""
