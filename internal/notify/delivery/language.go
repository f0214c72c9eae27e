package delivery

import (
	"context"
	"sync"

	"golang.org/x/text/language"

	"ingot/internal/notify"
	"ingot/internal/notify/template"
)

// variants are the texts of a template in other languages, compiled when they are first used.
type variants struct {
	source notify.Template

	mu       sync.Mutex
	compiled map[string]variant
}

type variant struct {
	compiled *template.Compiled
	err      error
}

func newVariants(source notify.Template) *variants {
	if !source.Localized() {
		return nil
	}
	return &variants{source: source, compiled: map[string]variant{}}
}

// get returns the template for a recipient's language, and the language of numbers and dates in it.
func (v *variants) get(tag language.Tag) (*template.Compiled, language.Tag, error) {
	source, locale, key := v.source.For(tag)
	v.mu.Lock()
	defer v.mu.Unlock()
	have, ok := v.compiled[key]
	if !ok {
		have.compiled, have.err = compile(source)
		v.compiled[key] = have
	}
	return have.compiled, locale, have.err
}

// localized reports whether a message depends on the recipient's language.
func (c *chosen) localized() bool {
	return c.err == nil && (c.variants != nil || c.compiled.Localized())
}

// inLanguage returns the template in the language of a message's recipient, and the language of its numbers,
// dates and plurals: that of the variant.
func (c *contents) inLanguage(ctx context.Context, t *chosen, l *message) (*template.Compiled, language.Tag, error) {
	if !t.localized() {
		return t.compiled, language.Und, nil
	}
	locale, err := c.data.locale(ctx, l)
	if err != nil {
		return nil, language.Und, err
	}
	tag := language.Und
	if locale != "" {
		// It was checked when the send was accepted, unless it is the user's; in doubt it is English.
		tag, _ = language.Parse(locale)
	}
	if t.variants == nil {
		return t.compiled, tag, nil
	}
	return t.variants.get(tag)
}

// asksLanguage reports whether the language of a message's user has to be looked up.
func (c *contents) asksLanguage(ctx context.Context, l *message) bool {
	if list := l.Send.List(); list != "" {
		if m, err := c.data.member(ctx, list, l.Audience); err != nil || m.Locale != "" {
			return false
		}
	}
	return l.UserID != ""
}

const reasonLanguage = "the user's language could not be looked up: the authorization server is unavailable"

// languages looks up the languages of users for templates that depend on them.
func (d *Delivery) languages(ctx context.Context, s *sorted) error {
	d.contents.prepare(ctx, s.ready)
	var ids []string
	var last *notify.Send
	localized := false
	for i := range s.ready {
		l := &s.ready[i]
		if l.Send != last {
			last = l.Send
			t, err := d.contents.template(ctx, l.Send)
			localized = err == nil && t.localized() // an error is for the one who renders
		}
		if localized && d.contents.asksLanguage(ctx, l) {
			l.asked = true
			ids = append(ids, l.UserID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := d.o.Directory.Locales(ctx, ids)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		d.o.Metrics.directoryFailed("languages")
		d.o.Log.Warn("language lookup failed, messages postponed", "users", len(ids), "error", err)
		again := d.later()
		s.keep(func(l *message) (notify.Outcome, bool) {
			return postpone(l, reasonLanguage, d.o.Now(), again), l.asked
		})
		return nil
	}
	d.lookups.clear()
	for i := range s.ready {
		if l := &s.ready[i]; l.asked {
			l.locale = found[l.UserID]
		}
	}
	return nil
}
