package template

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/currency"
	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
	"golang.org/x/text/number"
)

// date implements date LAYOUT [ZONE] VALUE. The value is a time, a date, or seconds since 1970;
// another one is shown as it is.
func date(args []argument) (expr, kind, error) {
	if err := count(args, 2, 3); err != nil {
		return nil, 0, err
	}
	layout := args[0].constant
	if layout == nil || layout.kind != kindText {
		return nil, 0, errors.New(`needs its layout as a string literal, such as "2 January 2006, 15:04"`)
	}
	zone := time.UTC
	keep := len(args) == 2 // the zone of the value
	if !keep {
		name := args[1].constant
		if name == nil || name.kind != kindText {
			return nil, 0, errors.New(`needs its time zone as a string literal, such as "Europe/Berlin"`)
		}
		var err error
		if zone, err = time.LoadLocation(name.s); err != nil {
			return nil, 0, fmt.Errorf("does not know the time zone %q: give one such as \"Europe/Berlin\"", name.s)
		}
	}
	of := args[len(args)-1]
	return func(e *evaluation, dot value) value {
		v := of.expr(e, dot)
		t, ok := v.moment()
		if !ok || !e.spend(len(layout.s)) {
			return text(v.String())
		}
		if !keep {
			t = t.In(zone)
		}
		return text(t.Format(layout.s))
	}, kindText, nil
}

// moment reads a time.
func (v value) moment() (time.Time, bool) {
	switch v.kind {
	case kindTime:
		return v.t, true
	case kindInt:
		return time.Unix(int64(v.n), 0).UTC(), true
	case kindText:
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
			if t, err := time.Parse(layout, v.s); err == nil {
				return t, true
			}
		}
	}
	return time.Time{}, false
}

// localized are the functions whose result depends on the recipient's language.
var localized = words("number money plural")

const maxDecimals = 10

// numeric reads a number, also from a string: amounts are often sent so, to be exact.
func (v value) numeric() (float64, bool) {
	if v.kind == kindText {
		f, err := strconv.ParseFloat(v.s, 64)
		return f, err == nil
	}
	return v.number()
}

// decimal implements number [DECIMALS] VALUE: with the separators of the recipient's language.
func decimal(args []argument) (expr, kind, error) {
	if err := count(args, 1, 2); err != nil {
		return nil, 0, err
	}
	var options []number.Option
	if len(args) == 2 {
		n := args[0].constant
		if n == nil || n.kind != kindInt || n.n < 0 || n.n > maxDecimals {
			return nil, 0, fmt.Errorf("needs the number of decimals as a literal from 0 to %d", maxDecimals)
		}
		options = append(options, number.Scale(n.n))
	}
	of := args[len(args)-1]
	return func(e *evaluation, dot value) value {
		v := of.expr(e, dot)
		f, ok := v.numeric()
		if !ok {
			return text(v.String())
		}
		p := printerOf(e.locale())
		defer p.done()
		return text(p.Sprint(number.Decimal(f, options...)))
	}, kindText, nil
}

// money implements money CURRENCY VALUE: with the currency's decimals, and its symbol where the
// recipient's language puts it.
func money(args []argument) (expr, kind, error) {
	if err := count(args, 2, 2); err != nil {
		return nil, 0, err
	}
	if c := args[0].constant; c != nil {
		if _, err := currency.ParseISO(c.s); err != nil {
			return nil, 0, fmt.Errorf("does not know the currency %q: give its ISO code, such as \"EUR\"", c.s)
		}
	}
	return func(e *evaluation, dot value) value {
		code, v := args[0].expr(e, dot).String(), args[1].expr(e, dot)
		unit, err := currency.ParseISO(code)
		f, ok := v.numeric()
		if err != nil || !ok {
			return text(strings.TrimSpace(v.String() + " " + code))
		}
		scale, _ := currency.Standard.Rounding(unit)
		p := printerOf(e.locale())
		defer p.done()
		amount, symbol := p.Sprint(number.Decimal(f, number.Scale(scale))), p.symbol(unit)
		base, _ := e.locale().Base()
		if symbolFirst[base.String()] {
			sign := ""
			if rest, negative := strings.CutPrefix(amount, "-"); negative {
				sign, amount = "-", rest
			}
			if last := symbol[len(symbol)-1]; last >= 'A' && last <= 'Z' {
				symbol += "\u00a0"
			}
			return text(sign + symbol + amount)
		}
		return text(amount + "\u00a0" + symbol)
	}, kindText, nil
}

// symbolFirst are the languages that write the symbol of a currency before the amount.
var symbolFirst = words(`en ja zh ko th hi bn ta te ml kn gu mr pa ur he id ms fil sw ga cy mt tr`)

// pluralForm implements plural NUMBER "one" TEXT "other" TEXT: the text of the number's plural
// form in the recipient's language, in which # is the number.
func pluralForm(args []argument) (expr, kind, error) {
	const usage = `needs a number and texts by form: plural .Data.count "one" "# file" "other" "# files"`
	forms := map[plural.Form]string{}
	if len(args) < 3 || len(args)%2 == 0 {
		return nil, 0, errors.New(usage)
	}
	for i := 1; i < len(args); i += 2 {
		name, words := args[i].constant, args[i+1].constant
		if name == nil || words == nil {
			return nil, 0, errors.New(usage)
		}
		form, ok := pluralForms[name.s]
		if !ok {
			return nil, 0, fmt.Errorf("does not know the form %q: there are zero, one, two, few, many and other", name.s)
		}
		forms[form] = words.String()
	}
	if _, ok := forms[plural.Other]; !ok {
		return nil, 0, errors.New(`needs a text for the form "other", which every language has`)
	}
	return func(e *evaluation, dot value) value {
		v := args[0].expr(e, dot)
		words := forms[plural.Other]
		if f, isNumber := v.number(); isNumber {
			if other, ok := forms[formOf(e.locale(), v, f)]; ok {
				words = other
			}
		}
		if !e.spend(len(words)) {
			return text("")
		}
		return text(strings.ReplaceAll(words, "#", v.String()))
	}, kindText, nil
}

var pluralForms = map[string]plural.Form{
	"zero": plural.Zero, "one": plural.One, "two": plural.Two, "few": plural.Few, "many": plural.Many,
	"other": plural.Other,
}

// formOf returns the plural form of a number in a language. Forms depend on the digits that are
// shown: 1 file, but 1.0 files.
func formOf(locale language.Tag, v value, f float64) plural.Form {
	shown := strings.TrimPrefix(v.String(), "-")
	whole, fraction, _ := strings.Cut(shown, ".")
	i, err := strconv.Atoi(whole)
	if err != nil || len(fraction) > maxDecimals { // such as 1e9
		i, fraction = int(min(max(f, 0), 1e9)), ""
	}
	trimmed := strings.TrimRight(fraction, "0")
	all, _ := strconv.Atoi(fraction)
	less, _ := strconv.Atoi(trimmed)
	return plural.Cardinal.MatchPlural(locale, i, len(fraction), len(trimmed), all, less)
}

// locale is the recipient's language, for formats.
func (e *evaluation) locale() language.Tag {
	if e.renderInput.Locale == (language.Tag{}) {
		return language.English
	}
	return e.renderInput.Locale
}
