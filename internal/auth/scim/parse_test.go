package scim_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ingot/internal/auth/scim"
)

func eq(attr string, v scim.Value) scim.Compare {
	return scim.Compare{Attr: attr, Op: scim.Eq, Value: v}
}

func pr(attr string) scim.Compare { return scim.Compare{Attr: attr, Op: scim.Pr} }

func TestParse(t *testing.T) {
	t.Parallel()
	type (
		and = scim.And
		or  = scim.Or
		not = scim.Not
	)
	a, b, c := pr("a"), pr("b"), pr("c")
	tests := []struct {
		in    string
		want  scim.Expr
		canon string // if not the same as in
	}{
		{in: `id eq "x"`, want: eq("id", "x")},
		{in: `id ne "x"`, want: scim.Compare{Attr: "id", Op: scim.Ne, Value: "x"}},
		{in: `id co "x"`, want: scim.Compare{Attr: "id", Op: scim.Co, Value: "x"}},
		{in: `id sw "x"`, want: scim.Compare{Attr: "id", Op: scim.Sw, Value: "x"}},
		{in: `id ew "x"`, want: scim.Compare{Attr: "id", Op: scim.Ew, Value: "x"}},
		{in: `id gt "x"`, want: scim.Compare{Attr: "id", Op: scim.Gt, Value: "x"}},
		{in: `id ge "x"`, want: scim.Compare{Attr: "id", Op: scim.Ge, Value: "x"}},
		{in: `id lt "x"`, want: scim.Compare{Attr: "id", Op: scim.Lt, Value: "x"}},
		{in: `id le "x"`, want: scim.Compare{Attr: "id", Op: scim.Le, Value: "x"}},
		{in: `id pr`, want: pr("id")},

		// Names, case and spaces.
		{in: `userName EQ "Marissa"`, want: eq("username", "Marissa"), canon: `username eq "Marissa"`},
		{in: `a PR AND NOT(b pr)Or c Pr`, want: or{and{a, not{b}}, c}, canon: `a pr and not (b pr) or c pr`},
		{in: "\t a\r\neq   1 ", want: eq("a", 1.0), canon: `a eq 1`},
		{in: `a eq"x"and b eq'y'`, want: and{eq("a", "x"), eq("b", "y")}, canon: `a eq "x" and b eq "y"`},
		{in: `emails.value pr`, want: pr("emails.value")},
		{in: `urn:ietf:params:scim:schemas:core:2.0:user:$x_y-z pr`,
			want: pr("urn:ietf:params:scim:schemas:core:2.0:user:$x_y-z")},
		{in: `eq eq true`, want: eq("eq", true)},
		{in: `order pr or notes pr`, want: or{pr("order"), pr("notes")}},

		// Values.
		{in: `a eq TRUE`, want: eq("a", true), canon: `a eq true`},
		{in: `a eq false`, want: eq("a", false)},
		{in: `a eq Null`, want: eq("a", nil), canon: `a eq null`},
		{in: `a eq -1.50e1`, want: eq("a", -15.0), canon: `a eq -15`},
		{in: `a eq 1e300`, want: eq("a", 1e300), canon: `a eq 1e+300`},
		{in: `(a eq 1)`, want: eq("a", 1.0), canon: `a eq 1`},
		{in: `a eq ""`, want: eq("a", "")},
		{in: `a eq "it's"`, want: eq("a", "it's")},
		{in: `a eq 'say "hi"'`, want: eq("a", `say "hi"`), canon: `a eq "say \"hi\""`},
		{in: `a eq 'it\'s'`, want: eq("a", "it's"), canon: `a eq "it's"`},
		{in: `a eq "\"\\\/\b\f\n\r\t"`, want: eq("a", "\"\\/\b\f\n\r\t"), canon: `a eq "\"\\/\u0008\u000c\n\r\t"`},
		{in: `a eq "\u00e9\uD83D\uDE00é😀"`, want: eq("a", "é😀é😀"), canon: `a eq "é😀é😀"`},
		{in: `a eq "x) or (b pr"`, want: eq("a", "x) or (b pr")},
		{in: "a eq \"\ufffd\"", want: eq("a", "\ufffd")},

		// Precedence and grouping.
		{in: `a pr or b pr and c pr`, want: or{a, and{b, c}}},
		{in: `a pr and b pr or c pr`, want: or{and{a, b}, c}},
		{in: `(a pr or b pr) and c pr`, want: and{or{a, b}, c}},
		{in: `a pr and (b pr or c pr)`, want: and{a, or{b, c}}},
		{in: `a pr or b pr or c pr`, want: or{or{a, b}, c}},
		{in: `(a pr or b pr) or c pr`, want: or{or{a, b}, c}, canon: `a pr or b pr or c pr`},
		{in: `a pr or (b pr or c pr)`, want: or{a, or{b, c}}},
		{in: `a pr and (b pr and c pr)`, want: and{a, and{b, c}}},
		{in: `not (a pr) and b pr`, want: and{not{a}, b}},
		{in: `not (a pr and b pr)`, want: not{and{a, b}}},
		{in: `not (not (a pr))`, want: not{not{a}}},
		{in: `((a pr)) and ((b pr))`, want: and{a, b}, canon: `a pr and b pr`},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			t.Parallel()
			got, err := scim.Parse(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Fatalf("tree (-want +got):\n%s", diff)
			}
			canon := tt.canon
			if canon == "" {
				canon = tt.in
			}
			if got.String() != canon {
				t.Errorf("String() = %s, want %s", got, canon)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	many := func(n int, s, sep string) string { return strings.Repeat(s+sep, n-1) + s }
	tests := []struct {
		name, in string
		pos      int
		msg      string // a part of the message
	}{
		{"Empty", ``, 0, `expected an attribute name`},
		{"Blank", `   `, 3, `found the end of the filter`},
		{"AttrOnly", `userName`, 8, `expected an operator after "username", found the end`},
		{"OperatorUnknown", `userName is "x"`, 9, `unknown operator "is": use one of eq, ne, co`},
		{"OperatorSymbol", `userName = "x"`, 9, `expected an operator after "username", found "="`},
		{"ValueMissing", `active eq`, 9, `expected a value after "eq"`},
		{"ValueMissingInGroup", `(active eq )`, 11, `expected a value after "eq"`},
		{"ValueUnquoted", `id eq marissa`, 6,
			`expected a value after "eq": a string in quotes, a number, true, false or null, found "marissa"`},
		{"ValueNumberHex", `id eq 0x10`, 6, `found "0x10"`},
		{"ValueNumberLeadingZero", `id eq 01`, 6, `found "01"`},
		{"ValueNumberPlus", `id eq +1`, 6, `found "+1"`},
		{"ValueNumberHuge", `id eq 1e999`, 6, `out of range`},
		{"ValueNaN", `id eq NaN`, 6, `found "NaN"`},
		{"ValueArray", `id eq [1]`, 6, `found "[1]"`},
		{"ValueLong", `id eq ` + strings.Repeat("é", 100), 6, `found "` + strings.Repeat("é", 40) + `…"`},
		{"ValueAfterPr", `id pr "x"`, 6, `expected "and", "or" or the end of the filter`},
		{"StringOpen", `id eq "abc`, 6, `has no closing "`},
		{"StringOpenSingle", `id eq 'abc"`, 6, `has no closing '`},
		{"StringEndsInBackslash", `id eq "abc\`, 10, `unfinished escape`},
		{"StringEscape", `id eq "ab\x"`, 9, `unknown escape`},
		{"StringHex", `id eq "\u12g4"`, 7, `four hexadecimal digits`},
		{"StringHexShort", `id eq "\u12`, 7, `four hexadecimal digits`},
		{"StringNUL", `id eq "\u0000"`, 7, `\u0000 is not allowed`},
		{"StringHighSurrogate", `id eq "\ud83d"`, 7, `surrogate`},
		{"StringHighSurrogateTwice", `id eq "\ud83d\ud83d"`, 7, `surrogate`},
		{"StringLowSurrogate", `id eq "\ude00"`, 7, `surrogate`},
		{"StringControl", "id eq \"a\nb\"", 8, `control characters`},
		{"NotUTF8", "id eq \"\xff\"", 7, `not valid UTF-8`},
		{"AndAtStart", `and id pr`, 0, `found the keyword "and"`},
		{"AndAtEnd", `id pr and`, 9, `expected an attribute name, "not" or "(", found the end of the filter`},
		{"OrTwice", `id pr or OR id pr`, 9, `found the keyword "or"`},
		{"Juxtaposed", `id pr id pr`, 6, `found "id"`},
		{"NotBare", `not id pr`, 4, `expected "(" after "not", found "id"`},
		{"NotAtEnd", `not`, 3, `expected "(" after "not", found the end`},
		{"GroupEmpty", `()`, 1, `found ")"`},
		{"GroupOpen", `id pr and (id pr`, 16, `to close the "(" at position 10`},
		{"GroupExtraClose", `id pr)`, 5, `found ")"`},
		{"Brackets", `emails[type eq "work"]`, 6, `found "["`},
		{"NotASCIIName", `naïve pr`, 2, `found "ï"`},
		{"TooLong", strings.Repeat(" ", scim.MaxLength) + `x`, scim.MaxLength, `longer than 16384 bytes`},
		{"TooManyComparisons", many(501, `a pr`, ` or `), 500 * 8, `more than 500 comparisons`},
		{"TooDeep", strings.Repeat(`(`, 51) + `a pr` + strings.Repeat(`)`, 51), 50, `more than 50 deep`},
		{"TooDeepNot", strings.Repeat(`not(`, 51) + `a pr` + strings.Repeat(`)`, 51), 50*4 + 3, `more than 50 deep`},
		{"HostileDepth", strings.Repeat(`(`, scim.MaxLength), 50, `more than 50 deep`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := scim.Parse(tt.in)
			var syntax *scim.SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("Parse gave %v, %v; want a *SyntaxError", got, err)
			}
			if got != nil {
				t.Errorf("an expression came with the error: %v", got)
			}
			if syntax.Pos != tt.pos || !strings.Contains(syntax.Msg, tt.msg) {
				t.Errorf("got  %d: %s\nwant %d: … %s", syntax.Pos, syntax.Msg, tt.pos, tt.msg)
			}
		})
	}
}

func TestParseErrorText(t *testing.T) {
	t.Parallel()
	_, err := scim.Parse(`active eq`)
	const want = `invalid filter at position 9: expected a value after "eq"`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestParseAtTheBounds(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"Comparisons": strings.Repeat(`a pr or `, scim.MaxComparisons-1) + `a pr`,
		"Nesting":     strings.Repeat(`not(`, scim.MaxNesting) + `a pr` + strings.Repeat(`)`, scim.MaxNesting),
		"Siblings":    strings.Repeat(`(a pr) and `, 100) + `(a pr)`,
		"Length":      `a eq "` + strings.Repeat("x", scim.MaxLength-7) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := scim.Parse(in); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpString(t *testing.T) {
	t.Parallel()
	want := map[scim.Op]string{
		scim.Eq: "eq", scim.Ne: "ne", scim.Co: "co", scim.Sw: "sw", scim.Ew: "ew",
		scim.Gt: "gt", scim.Ge: "ge", scim.Lt: "lt", scim.Le: "le", scim.Pr: "pr",
		0: "Op(0)", scim.Pr + 1: "Op(11)",
	}
	for op, s := range want {
		if op.String() != s {
			t.Errorf("Op %d prints %q, want %q", uint8(op), op, s)
		}
	}
}

// genExpr draws a tree of at most the given depth over the leaves given.
func genExpr(leaf *rapid.Generator[scim.Expr], depth int) *rapid.Generator[scim.Expr] {
	if depth == 0 {
		return leaf
	}
	sub := rapid.Deferred(func() *rapid.Generator[scim.Expr] { return genExpr(leaf, depth-1) })
	return rapid.OneOf(
		leaf,
		rapid.Custom(func(t *rapid.T) scim.Expr {
			return scim.And{Left: sub.Draw(t, "left"), Right: sub.Draw(t, "right")}
		}),
		rapid.Custom(func(t *rapid.T) scim.Expr {
			return scim.Or{Left: sub.Draw(t, "left"), Right: sub.Draw(t, "right")}
		}),
		rapid.Custom(func(t *rapid.T) scim.Expr { return scim.Not{X: sub.Draw(t, "x")} }),
	)
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	name := rapid.StringMatching(`[a-z0-9_.:$-]{1,8}`).Filter(func(s string) bool {
		return s != "and" && s != "or" && s != "not"
	})
	text := rapid.Map(rapid.StringN(0, 12, -1), func(s string) string {
		return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
	})
	value := rapid.OneOf(
		rapid.Map(text, func(s string) scim.Value { return s }),
		rapid.Map(rapid.Bool(), func(b bool) scim.Value { return b }),
		rapid.Map(rapid.Float64(), func(f float64) scim.Value { return f }),
		rapid.Just[scim.Value](nil),
	)
	leaf := rapid.Custom(func(t *rapid.T) scim.Expr {
		c := scim.Compare{
			Attr: name.Draw(t, "attr"),
			Op:   scim.Op(rapid.IntRange(int(scim.Eq), int(scim.Pr)).Draw(t, "op")),
		}
		if c.Op != scim.Pr {
			c.Value = value.Draw(t, "value")
		}
		return c
	})
	trees := genExpr(leaf, 5)
	rapid.Check(t, func(t *rapid.T) {
		want := trees.Draw(t, "tree")
		text := want.String()
		got, err := scim.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", text, diff)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`id eq "x"`, `userName co 'it\'s' AND not (active eq false)`,
		`a pr or (b gt -1.5e3 or c le null) and d ne "\ud83d\ude00"`,
		`((a pr`, `a eq "\u`, `a eq -`, `meta.created ge "2026-01-31T12:00:00Z"`,
	} {
		f.Add(s)
	}
	schema := scim.Schema{
		"id": {SQL: "id"}, "username": {SQL: "username", Kind: scim.TextFold},
		"active": {SQL: "active", Kind: scim.Bool}, "meta.created": {SQL: "created", Kind: scim.Time},
		"a": {SQL: "a"}, "b": {SQL: "b", Kind: scim.TextFold}, "c": {SQL: "c", Kind: scim.Bool},
	}
	f.Fuzz(func(t *testing.T, in string) {
		e, err := scim.Parse(in)
		if err != nil {
			var syntax *scim.SyntaxError
			if !errors.As(err, &syntax) || syntax.Pos < 0 || syntax.Pos > len(in) {
				t.Fatalf("bad error for %q: %v", in, err)
			}
			return
		}
		if sql, args, err := schema.Where(e); err == nil && strings.Count(sql, "?") != len(args) {
			t.Fatalf("%d arguments for %s", len(args), sql)
		}
		_, _ = scim.Matches(e, func(string) any { return "x" })

		canon := e.String()
		if len(canon) > scim.MaxLength {
			return // added spaces and escapes can carry it over the bound
		}
		again, err := scim.Parse(canon)
		if err != nil {
			t.Fatalf("the canonical form of %q is refused: %v", in, err)
		}
		if diff := cmp.Diff(e, again); diff != "" {
			t.Fatalf("%q changed (-first +again):\n%s", in, diff)
		}
		if again.String() != canon {
			t.Fatalf("%q is not a fixpoint: %q", canon, again)
		}
	})
}

func ExampleParse() {
	e, err := scim.Parse(`userName EQ 'marissa' or (active eq true)`)
	fmt.Println(e, err)
	_, err = scim.Parse(`userName pr or`)
	fmt.Println(err)
	// Output:
	// username eq "marissa" or active eq true <nil>
	// invalid filter at position 14: expected an attribute name, "not" or "(", found the end of the filter
}
