package template

import (
	"fmt"
	"sync"
	"testing"

	"golang.org/x/text/language"

	"ingot/internal/notify"
)

// Formats of recipients in other languages, at the same time and in turn, do not mix.
func TestPrinters(t *testing.T) {
	t.Parallel()
	with, err := Compile(notify.Template{Subject: "s",
		Text: `{{number 2 .Data.n}} {{money "EUR" .Data.n}} {{money "USD" .Data.n}}`})
	if err != nil {
		t.Fatal(err)
	}
	data := decode(t, `{"n": 1234.5}`)
	render := func(locale string) string {
		body, err := with.Render(Values{Data: data, Locale: language.MustParse(locale)})
		if err != nil {
			return err.Error()
		}
		return body.Text
	}
	want := map[string]string{
		"en": "1,234.50 €1,234.50 $1,234.50",
		"de": "1.234,50 1.234,50\u00a0€ 1.234,50\u00a0$",
		"fr": "1\u00a0234,50 1\u00a0234,50\u00a0€ 1\u00a0234,50\u00a0$",
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 3 * manyPrinters {
				for locale, text := range want {
					if got := render(locale); got != text {
						t.Errorf("%s: %q, want %q", locale, got, text)
						return
					}
				}
				render(fmt.Sprintf("en-x-a%d", i)) // makes them forgotten
			}
		})
	}
	all.Wait()
	if n := len(printers.idle); n > manyPrinters {
		t.Errorf("the printers of %d languages are kept", n)
	}
}

// Formatting an amount does not make a printer, nor look the currency's symbol up.
//
//nolint:paralleltest // it counts the allocations of the process
func TestMoneyAllocates(t *testing.T) {
	with, err := Compile(notify.Template{Subject: "s", Text: `{{money "EUR" .Data.n}}`})
	if err != nil {
		t.Fatal(err)
	}
	v := Values{Data: decode(t, `{"n": 1234.5}`), Locale: language.German}
	n := testing.AllocsPerRun(100, func() {
		if _, err := with.Render(v); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%.0f allocations", n)
	if n > 25 {
		t.Errorf("%.0f allocations", n)
	}
}
