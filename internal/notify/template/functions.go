package template

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"unicode/utf8"
)

// function compiles a call after checking its arguments. Functions have no side
// effects, and their results are at most a small multiple of their arguments.
type function func(args []argument) (expr, kind, error)

var functions map[string]function

func init() {
	functions = map[string]function{
		"and": choose(false), "or": choose(true), "not": not,
		"eq": compare(true), "ne": compare(false),
		"lt": order(func(c int) bool { return c < 0 }), "le": order(func(c int) bool { return c <= 0 }),
		"gt": order(func(c int) bool { return c > 0 }), "ge": order(func(c int) bool { return c >= 0 }),
		"len": length, "index": index, "default": otherwise, "join": join,
		"upper": changed(strings.ToUpper), "lower": changed(strings.ToLower),
		"date": date, "number": decimal, "money": money, "plural": pluralForm,
		"print": printed(""), "println": printed("\n"), "printf": formatted,
		"html": escaping(template.HTMLEscapeString, true), "js": escaping(template.JSEscapeString, false),
		"urlquery": escaping(func(s string) string { return template.URLQueryEscaper(s) }, false),
	}
}

func count(args []argument, least, most int) error {
	switch {
	case len(args) < least:
		return fmt.Errorf("needs at least %d argument(s), not %d", least, len(args))
	case len(args) > most:
		return fmt.Errorf("takes at most %d argument(s), not %d", most, len(args))
	}
	return nil
}

const manyArgs = 100

// choose implements and/or: the first argument that decides, else the last.
func choose(on bool) function {
	return func(args []argument) (expr, kind, error) {
		if err := count(args, 1, manyArgs); err != nil {
			return nil, 0, err
		}
		k := args[0].kind
		for _, a := range args[1:] {
			if a.kind != k {
				k = kindAny
			}
		}
		return func(e *evaluation, dot value) value {
			var v value
			for _, a := range args {
				if v = a.expr(e, dot); v.true() == on {
					break
				}
			}
			return v
		}, k, nil
	}
}

func not(args []argument) (expr, kind, error) {
	if err := count(args, 1, 1); err != nil {
		return nil, 0, err
	}
	return func(e *evaluation, dot value) value { return truth(!args[0].expr(e, dot).true()) }, kindBool, nil
}

func alike(a, b kind) bool {
	return a == kindAny || b == kindAny || a == b || a.isString() && b.isString()
}

func same(e *evaluation, a, b value) bool {
	if x, ok := a.number(); ok {
		y, ok := b.number()
		return ok && x == y
	}
	if !alike(a.kind, b.kind) || !e.spend(min(len(a.s), len(b.s))) {
		return false
	}
	return a.s == b.s && a.n == b.n && a.t.Equal(b.t) && size(a.data) == 0 && size(b.data) == 0
}

// compare implements eq, which is true if the first argument equals any other,
// and ne of two arguments.
func compare(equal bool) function {
	return func(args []argument) (expr, kind, error) {
		most := manyArgs
		if !equal {
			most = 2
		}
		if err := count(args, 2, most); err != nil {
			return nil, 0, err
		}
		for _, a := range args[1:] {
			if !alike(args[0].kind, a.kind) {
				return nil, 0, errors.New("cannot compare values of different types")
			}
		}
		return func(e *evaluation, dot value) value {
			first := args[0].expr(e, dot)
			for _, a := range args[1:] {
				if same(e, first, a.expr(e, dot)) {
					return truth(equal)
				}
			}
			return truth(!equal)
		}, kindBool, nil
	}
}

func order(is func(int) bool) function {
	return func(args []argument) (expr, kind, error) {
		if err := count(args, 2, 2); err != nil {
			return nil, 0, err
		}
		if args[0].kind == kindBool || args[0].kind == kindTime || args[1].kind == kindBool ||
			!alike(args[0].kind, args[1].kind) {
			return nil, 0, errors.New("compares two strings or two numbers")
		}
		return func(e *evaluation, dot value) value {
			a, b := args[0].expr(e, dot), args[1].expr(e, dot)
			if x, ok := a.number(); ok {
				y, ok := b.number()
				return truth(ok && is(cmp.Compare(x, y)))
			}
			if !alike(a.kind, b.kind) || !e.spend(min(len(a.s), len(b.s))) {
				return truth(false)
			}
			return truth(is(strings.Compare(a.s, b.s)))
		}, kindBool, nil
	}
}

func length(args []argument) (expr, kind, error) {
	if err := count(args, 1, 1); err != nil {
		return nil, 0, err
	}
	if k := args[0].kind; !k.isString() && k != kindAny {
		return nil, 0, errors.New("needs a string or a list")
	}
	return func(e *evaluation, dot value) value {
		v := args[0].expr(e, dot)
		if v.kind == kindData {
			return integer(size(v.data))
		}
		return integer(len(v.s))
	}, kindInt, nil
}

// joined returns the arguments' texts, or an error if they are too long.
func joined(e *evaluation, dot value, args []argument) []string {
	out := make([]string, 0, len(args))
	for _, a := range args {
		s := a.expr(e, dot).String()
		if !e.spend(len(s)) {
			return nil
		}
		out = append(out, s)
	}
	return out
}

// printed joins as fmt.Sprint does: no space next to a string. println adds
// spaces between all.
func printed(end string) function {
	return func(args []argument) (expr, kind, error) {
		if err := count(args, 0, manyArgs); err != nil {
			return nil, 0, err
		}
		return func(e *evaluation, dot value) value {
			separator := ""
			if end != "" {
				separator = " "
			}
			return text(strings.Join(joined(e, dot, args), separator) + end)
		}, kindText, nil
	}
}

// formatted implements printf. The format must be a literal with plain verbs: a
// width or a precision could make a small value arbitrarily large.
func formatted(args []argument) (expr, kind, error) {
	if err := count(args, 1, manyArgs); err != nil {
		return nil, 0, err
	}
	if args[0].constant == nil || args[0].kind != kindText {
		return nil, 0, errors.New("needs its format as a string literal")
	}
	format, verbs := args[0].constant.s, ""
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		i++
		if i == len(format) || !strings.ContainsRune("%svqdt", rune(format[i])) {
			return nil, 0, errors.New("supports %s, %v, %q, %d, %t and %%, without widths")
		}
		if format[i] != '%' {
			verbs += string(format[i])
		}
	}
	if len(verbs) != len(args)-1 {
		return nil, 0, fmt.Errorf("has %d verb(s) for %d value(s)", len(verbs), len(args)-1)
	}
	return func(e *evaluation, dot value) value {
		values := joined(e, dot, args[1:])
		if e.err != nil {
			return text("")
		}
		var b strings.Builder
		for i, n := 0, 0; i < len(format); i++ {
			switch {
			case format[i] != '%':
				b.WriteByte(format[i])
				continue
			case format[i+1] == '%':
				b.WriteByte('%')
			case format[i+1] == 'q':
				b.WriteString(strconv.Quote(values[n]))
				n++
			default:
				b.WriteString(values[n])
				n++
			}
			i++
		}
		return text(b.String())
	}, kindText, nil
}

// escaping implements html, js and urlquery. In the HTML part html does nothing:
// values are escaped for their context anyway.
func escaping(escape func(string) string, placed bool) function {
	return func(args []argument) (expr, kind, error) {
		if err := count(args, 1, manyArgs); err != nil {
			return nil, 0, err
		}
		return func(e *evaluation, dot value) value {
			if placed && e.html && len(args) == 1 {
				v := args[0].expr(e, dot)
				return text(v.String())
			}
			s := strings.Join(joined(e, dot, args), "")
			if !utf8.ValidString(s) {
				s = strings.ToValidUTF8(s, "�")
			}
			return text(escape(s))
		}, kindText, nil
	}
}
