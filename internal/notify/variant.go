package notify

import (
	"cmp"

	"golang.org/x/text/language"

	"ingot/internal/base/fault"
)

// Variant is a template's text in another language. Empty parts are those of the template.
type Variant struct {
	Subject string `json:"subject,omitempty"`
	Text    string `json:"text,omitempty"`
	HTML    string `json:"html,omitempty"`
}

// MaxVariants limits the variants of a template.
const MaxVariants = 50

// CanonicalLocale returns a BCP 47 tag as it is stored: pt-BR for PT_br.
func CanonicalLocale(tag string) (string, error) {
	parsed, err := language.Parse(tag)
	if err != nil || parsed == language.Und || len(tag) > maxLocale {
		return "", fault.New(fault.Unprocessable, "%q is not a language tag such as de or pt-BR", tag)
	}
	return parsed.String(), nil
}

// VariantFor returns the tag of the variant for a language: the exact one, or that of the nearest
// parent. "" is the template's own text.
func (t *Template) VariantFor(tag language.Tag) string {
	return nearestVariant(t.Variants, tag)
}

func nearestVariant(variants map[string]Variant, tag language.Tag) string {
	if len(variants) == 0 {
		return ""
	}
	for ; tag != language.Und; tag = tag.Parent() {
		if _, ok := variants[tag.String()]; ok {
			return tag.String()
		}
	}
	return ""
}

// In returns the template with the texts of a variant; "" is its own text.
func (t Template) In(variant string) Template {
	v := t.Variants[variant]
	t.Subject, t.Text, t.HTML = cmp.Or(v.Subject, t.Subject), cmp.Or(v.Text, t.Text), cmp.Or(v.HTML, t.HTML)
	t.Variants = nil
	return t
}
