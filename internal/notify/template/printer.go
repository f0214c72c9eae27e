package template

import (
	"sync"

	"golang.org/x/text/currency"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// printer formats numbers in a language, for one goroutine at a time. Making one costs more than formatting a number,
// and a send with data formats some for each recipient.
type printer struct {
	*message.Printer
	locale  language.Tag
	symbols map[currency.Unit]string
}

// manyPrinters is the number of languages whose printers are kept.
const manyPrinters = 100

var printers struct {
	mu   sync.Mutex
	idle map[language.Tag]*sync.Pool
}

// printerOf returns a printer, which the caller returns with done.
func printerOf(locale language.Tag) *printer {
	if p, ok := idlePrinters(locale).Get().(*printer); ok {
		return p
	}
	return &printer{message.NewPrinter(locale), locale, map[currency.Unit]string{}}
}

func (p *printer) done() { idlePrinters(p.locale).Put(p) }

func idlePrinters(locale language.Tag) *sync.Pool {
	printers.mu.Lock()
	defer printers.mu.Unlock()
	idle := printers.idle[locale]
	if idle == nil {
		if printers.idle == nil || len(printers.idle) >= manyPrinters {
			printers.idle = map[language.Tag]*sync.Pool{}
		}
		idle = &sync.Pool{}
		printers.idle[locale] = idle
	}
	return idle
}

// symbol returns the symbol of a currency in the language.
func (p *printer) symbol(of currency.Unit) string {
	known, ok := p.symbols[of]
	if !ok {
		known = p.Sprint(currency.NarrowSymbol(of))
		p.symbols[of] = known
	}
	return known
}
