package notify

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/language"

	"ingot/internal/base/fault"
	"ingot/internal/base/pattern"
)

// Partial is text that templates share: a footer, or a layout with blocks that templates fill.
type Partial struct {
	// Owner is the client that created it; empty for those that all clients share.
	Owner string
	Name  string
	// Text is for texts and subjects, HTML for HTML.
	Text, HTML string
	// Variants are its texts in other languages. They have no subject.
	Variants         map[string]Variant
	Created, Updated time.Time
}

const (
	// MaxPartials limits the partials of a client.
	MaxPartials = 100
	// MaxPartial limits each text of a partial, in bytes.
	MaxPartial = 64 << 10
	// MaxPartialDepth limits how deep partials and blocks use each other.
	MaxPartialDepth = 8

	maxPartialName = 64
)

var (
	partialName = pattern.OnUse(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)
	// partialUse finds template, and define or block, with their name.
	partialUse = pattern.OnUse("\\{\\{-?\\s*(template|define|block)\\s*[\"`]([A-Za-z0-9][A-Za-z0-9_-]*)[\"`]")
)

// Check returns a fault if the partial's name, size or locales are wrong. It does not compile it.
func (p *Partial) Check() error {
	var problems []string
	if len(p.Name) > maxPartialName || !partialName().MatchString(p.Name) {
		problems = append(problems, "a partial's name has at most 64 characters: a-z, A-Z, 0-9, - and _, "+
			"first a-z, A-Z or 0-9")
	}
	if strings.TrimSpace(p.Text+p.HTML) == "" {
		problems = append(problems, `give at least one of "text" and "html"`)
	}
	if len(p.Variants) > MaxVariants {
		problems = append(problems, "a partial may have at most 50 variants")
	}
	for _, locale := range append([]string{""}, slices.Sorted(maps.Keys(p.Variants))...) {
		in := p.In(locale)
		if len(in.Text) > MaxPartial || len(in.HTML) > MaxPartial {
			problems = append(problems, strings.TrimSpace("text and HTML may have at most 65536 bytes each "+locale))
		}
		if _, ok := p.Variants[locale]; ok && p.Variants[locale] == (Variant{}) {
			problems = append(problems, "the variant "+locale+` needs at least one of "text" and "html"`)
		}
	}
	return fault.Invalid(problems...)
}

// In returns the partial with the texts of a variant; "" is its own text.
func (p Partial) In(variant string) Partial {
	v := p.Variants[variant]
	p.Text, p.HTML, p.Variants = cmp.Or(v.Text, p.Text), cmp.Or(v.HTML, p.HTML), nil
	return p
}

// Uses returns the names of the partials that it uses, directly.
func (p *Partial) Uses() []string {
	return partialNames(append(textsOf(p.Variants), p.Text, p.HTML))
}

// Uses returns the names of the partials that the template uses, directly.
func (t *Template) Uses() []string {
	return partialNames(append(textsOf(t.Variants), t.Subject, t.Text, t.HTML))
}

func textsOf(variants map[string]Variant) []string {
	var all []string
	for _, v := range variants {
		all = append(all, v.Subject, v.Text, v.HTML)
	}
	return all
}

func partialNames(texts []string) []string {
	names := map[string]bool{}
	for _, text := range texts {
		if !strings.Contains(text, "template") {
			continue
		}
		found := partialUse().FindAllStringSubmatch(text, -1)
		own := map[string]bool{}
		for _, f := range found {
			own[f[2]] = own[f[2]] || f[1] != "template"
		}
		for _, f := range found {
			if !own[f[2]] && len(f[2]) <= maxPartialName {
				names[f[2]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Localized reports whether the template has texts in other languages, itself or in its partials.
func (t *Template) Localized() bool {
	if len(t.Variants) > 0 {
		return true
	}
	for _, p := range t.Partials {
		if len(p.Variants) > 0 {
			return true
		}
	}
	return false
}

// For returns the template with its texts for a recipient's language, and the language of its numbers and dates:
// that of the variant, if there is one. Partials follow that language. Two results with the same key are the same.
func (t *Template) For(tag language.Tag) (in Template, locale language.Tag, key string) {
	variant := t.VariantFor(tag)
	if variant != "" {
		tag = language.Make(variant)
	}
	in, key = t.In(variant), variant
	if len(t.Partials) == 0 {
		return in, tag, key
	}
	in.Partials = make(map[string]Partial, len(t.Partials))
	for _, name := range slices.Sorted(maps.Keys(t.Partials)) {
		p := t.Partials[name]
		nearest := nearestVariant(p.Variants, tag)
		in.Partials[name] = p.In(nearest)
		key += "|" + nearest
	}
	return in, tag, key
}

// State identifies what the template and its partials were when they were read.
func (t *Template) State() string {
	state := t.ID + t.Updated.UTC().Format(time.RFC3339Nano)
	for _, name := range slices.Sorted(maps.Keys(t.Partials)) {
		p := t.Partials[name]
		state += "|" + p.Owner + " " + name + p.Updated.UTC().Format(time.RFC3339Nano)
	}
	return state
}

// Blocks returns the names of the blocks that a template may fill if it uses the partial as its layout.
func (p *Partial) Blocks() []string {
	names := map[string]bool{}
	for _, text := range append(textsOf(p.Variants), p.Text, p.HTML) {
		for _, f := range partialUse().FindAllStringSubmatch(text, -1) {
			if f[1] == "block" {
				names[f[2]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// WithPartials adds its client's partials, and the shared ones, to a template that was not read from the store.
func WithPartials(ctx context.Context, from Partials, t Template) (Template, error) {
	var err error
	t.Partials, err = from.PartialsFor(ctx, t.Client(), t.Uses())
	return t, err
}

// Locales returns the languages that the template or one of its partials has.
func (t *Template) Locales() []string {
	all := map[string]bool{}
	for locale := range t.Variants {
		all[locale] = true
	}
	for _, p := range t.Partials {
		for locale := range p.Variants {
			all[locale] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// PartialUser is a template or a partial that uses a partial: one of TemplateID and Partial is set.
type PartialUser struct {
	Client     string
	TemplateID string
	Partial    string
	Name       string
}
