package scim

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Fold is text that [Matches] compares as columns of kind [TextFold] are.
type Fold string

// Matches evaluates a filter in memory, with the meaning that [Schema.Where]
// gives it in SQL.
//
// It calls get with each attribute's lower-case name. The type of the answer
// stands for the [Kind] of a column: string for Text, [Fold] for TextFold, bool
// for Bool, [time.Time] for Time; nil means that the attribute has no value.
//
// Every comparison is evaluated, so an ill-typed filter (a *[ValueError]) does
// not hide behind a short cut. One on an absent attribute passes unnoticed.
func Matches(e Expr, get func(attr string) any) (bool, error) {
	switch e := e.(type) {
	case And:
		left, right, err := matchBoth(e.Left, e.Right, get)
		return left && right, err
	case Or:
		left, right, err := matchBoth(e.Left, e.Right, get)
		return left || right, err
	case Not:
		x, err := Matches(e.X, get)
		return !x && err == nil, err
	case Compare:
		return e.matches(get(lowerASCII(e.Attr)))
	default:
		return false, errBadNode(e)
	}
}

func matchBoth(l, r Expr, get func(string) any) (left, right bool, err error) {
	if left, err = Matches(l, get); err != nil {
		return false, false, err
	}
	if right, err = Matches(r, get); err != nil {
		return false, false, err
	}
	return left, right, nil
}

// matches compares the attribute's value, got, with the filter's.
func (c Compare) matches(got any) (bool, error) {
	kind := Text
	switch v := got.(type) {
	case nil:
		return c.matchesAbsent()
	case string:
	case Fold:
		kind, got = TextFold, lowerASCII(string(v))
	case bool:
		kind = Bool
	case time.Time:
		kind, got = Time, v.UnixNano()
	default:
		return false, fmt.Errorf("scim: attribute %q has a value of type %T", c.Attr, got)
	}
	want, err := operand(c, kind)
	if err != nil {
		return false, err
	}
	if c.Op == Pr {
		return true, nil
	}
	if want == nil { // null, which no value equals
		return c.Op == Ne, nil
	}
	// operand has made want the same type as got.
	switch got := got.(type) {
	case string:
		want, _ := want.(string)
		return compareText(got, c.Op, want), nil
	case int64:
		want, _ := want.(int64)
		return compareOrder(got, c.Op, want), nil
	default:
		return (got == want) == (c.Op == Eq), nil
	}
}

func (c Compare) matchesAbsent() (bool, error) {
	if c.Op.valid() && c.Value != nil {
		return c.Op == Ne, nil // whatever the kind
	}
	if _, err := operand(c, Text); err != nil {
		return false, err
	}
	return c.Op == Eq, nil // Eq null, Ne null or Pr
}

func compareText(got string, op Op, want string) bool {
	switch op {
	case Co:
		return strings.Contains(got, want)
	case Sw:
		return strings.HasPrefix(got, want)
	case Ew:
		return strings.HasSuffix(got, want)
	default:
		return compareOrder(got, op, want)
	}
}

func compareOrder[T cmp.Ordered](got T, op Op, want T) bool {
	switch op {
	case Eq:
		return got == want
	case Ne:
		return got != want
	case Gt:
		return got > want
	case Ge:
		return got >= want
	case Lt:
		return got < want
	case Le:
		return got <= want
	default:
		return false
	}
}
