package template

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// dataVariable is the variable with what the caller sent for templates.
const dataVariable = "Data"

// maxRounds limits the items that the loops of a part visit.
const maxRounds = 10_000

// UsesData reports whether the message depends on .Data or on the recipient's language: if not,
// recipients with different ones can share a body.
func (c *Compiled) UsesData() bool {
	for _, p := range []*program{c.subject, c.text, c.web} {
		if p.used[dataVariable] {
			return true
		}
	}
	return c.Localized()
}

// Localized reports whether the message depends on the recipient's language.
func (c *Compiled) Localized() bool {
	return c.subject.localized || c.text.localized || c.web.localized
}

// fromData returns a JSON value as one of templates.
func fromData(d any) value {
	switch d := d.(type) {
	case string:
		return text(d)
	case bool:
		return truth(d)
	case json.Number:
		if n, err := strconv.Atoi(d.String()); err == nil {
			return integer(n)
		}
		return value{kind: kindDecimal, s: d.String()}
	}
	return value{kind: kindData, data: d}
}

// lookup finds a member of an object by its path. What is missing is nothing: it shows as
// nothing and is false.
func lookup(of argument, names []string) argument {
	inner := of.expr
	of.expr = func(e *evaluation, dot value) value {
		d := inner(e, dot).data
		for _, name := range names {
			object, _ := d.(map[string]any)
			d = object[name]
		}
		return fromData(d)
	}
	of.kind, of.constant = kindAny, nil
	return of
}

// size returns the number of members of a list or an object.
func size(d any) int {
	switch d := d.(type) {
	case []any:
		return len(d)
	case map[string]any:
		return len(d)
	}
	return 0
}

// members returns the items of a list, or the values of an object in the order of their names.
func members(d any) []any {
	switch d := d.(type) {
	case []any:
		return d
	case map[string]any:
		all := make([]any, 0, len(d))
		for _, name := range slices.Sorted(maps.Keys(d)) {
			all = append(all, d[name])
		}
		return all
	}
	return nil
}

// joinedText returns a list or an object as text.
func joinedText(d any) string {
	switch d := d.(type) {
	case []any:
		all := make([]string, 0, len(d))
		for _, item := range d {
			all = append(all, fromData(item).String())
		}
		return strings.Join(all, ", ")
	case map[string]any:
		if raw, err := json.Marshal(d); err == nil {
			return string(raw)
		}
	}
	return ""
}

// number returns a number, and whether the value is one.
func (v value) number() (float64, bool) {
	switch v.kind {
	case kindInt:
		return float64(v.n), true
	case kindDecimal:
		f, err := strconv.ParseFloat(v.s, 64)
		return f, err == nil
	}
	return 0, false
}

// index implements index LIST NUMBER and index OBJECT NAME, for names that are not words.
func index(args []argument) (expr, kind, error) {
	if err := count(args, 2, 2); err != nil {
		return nil, 0, err
	}
	if args[0].kind != kindAny {
		return nil, 0, errors.New("needs a list or an object of .Data")
	}
	return func(e *evaluation, dot value) value {
		of, at := args[0].expr(e, dot), args[1].expr(e, dot)
		switch d := of.data.(type) {
		case []any:
			if at.kind == kindInt && at.n >= 0 && at.n < len(d) {
				return fromData(d[at.n])
			}
		case map[string]any:
			return fromData(d[at.String()])
		}
		return value{kind: kindData}
	}, kindAny, nil
}

// otherwise implements default: its first argument is shown if the second is missing or empty.
// The numbers 0 and the value false are neither.
func otherwise(args []argument) (expr, kind, error) {
	if err := count(args, 2, 2); err != nil {
		return nil, 0, err
	}
	return func(e *evaluation, dot value) value {
		v := args[1].expr(e, dot)
		if _, isNumber := v.number(); !isNumber && v.kind != kindBool && !v.true() {
			return args[0].expr(e, dot)
		}
		return v
	}, kindAny, nil
}

// join implements join SEPARATOR LIST.
func join(args []argument) (expr, kind, error) {
	if err := count(args, 2, 2); err != nil {
		return nil, 0, err
	}
	return func(e *evaluation, dot value) value {
		separator, of := args[0].expr(e, dot).String(), args[1].expr(e, dot)
		items, isList := of.data.([]any)
		if !isList {
			return text(of.String())
		}
		all := make([]string, 0, len(items))
		for _, item := range items {
			s := fromData(item).String()
			if !e.spend(len(s) + len(separator)) {
				return text("")
			}
			all = append(all, s)
		}
		return text(strings.Join(all, separator))
	}, kindText, nil
}

// changed implements upper and lower.
func changed(change func(string) string) function {
	return func(args []argument) (expr, kind, error) {
		if err := count(args, 1, 1); err != nil {
			return nil, 0, err
		}
		return func(e *evaluation, dot value) value {
			s := args[0].expr(e, dot).String()
			if !e.spend(len(s)) {
				return text("")
			}
			return text(change(s))
		}, kindText, nil
	}
}
