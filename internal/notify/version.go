package notify

import (
	"maps"
	"slices"
	"strings"
)

// MaxVersions limits the earlier versions of a template that are kept.
const MaxVersions = 20

// TemplatePart is one text of a template: subject, text or html, of a variant if Locale is not empty.
type TemplatePart struct {
	Part, Locale, Content string
}

// Parts returns the texts of a template in a fixed order; those of variants that have none are left out.
func (t *Template) Parts() []TemplatePart {
	all := []TemplatePart{{"name", "", t.Name}, {"subject", "", t.Subject}, {"text", "", t.Text}, {"html", "", t.HTML},
		{"metadata", "", string(t.Metadata)}}
	for _, locale := range slices.Sorted(maps.Keys(t.Variants)) {
		v := t.Variants[locale]
		all = append(all, TemplatePart{"subject", locale, v.Subject}, TemplatePart{"text", locale, v.Text},
			TemplatePart{"html", locale, v.HTML})
	}
	return all
}

// PartDifference is how one text differs between two versions.
type PartDifference struct {
	Part, Locale string
	// Lines begin with " ", "-" or "+".
	Lines []string
}

// Difference returns the texts in which two versions of a template differ.
func Difference(from, to *Template) []PartDifference {
	type place struct{ part, locale string }
	before := map[place]string{}
	for _, p := range from.Parts() {
		before[place{p.Part, p.Locale}] = p.Content
	}
	after := map[place]bool{}
	var all []PartDifference
	add := func(at place, old, now string) {
		if old != now {
			all = append(all, PartDifference{at.part, at.locale, differentLines(old, now)})
		}
	}
	for _, p := range to.Parts() {
		at := place{p.Part, p.Locale}
		after[at] = true
		add(at, before[at], p.Content)
	}
	for _, p := range from.Parts() {
		if at := (place{p.Part, p.Locale}); !after[at] {
			add(at, p.Content, "")
		}
	}
	return all
}

const (
	// maxCompared limits the work of a comparison: the product of the lines that may differ.
	maxCompared = 4_000_000
	// contextLines are shown around a change.
	contextLines = 3
)

// differentLines compares two texts by lines. Very long texts that differ much are shown as replaced.
func differentLines(old, now string) []string {
	a, b := textLines(old), textLines(now)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out []string
	for _, line := range a[max(0, head-contextLines):head] {
		out = append(out, " "+line)
	}
	out = compared(out, a[head:len(a)-tail], b[head:len(b)-tail])
	for _, line := range a[len(a)-tail:][:min(tail, contextLines)] {
		out = append(out, " "+line)
	}
	return out
}

func textLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// compared adds the lines of the longest common sequence as unchanged, and the others.
func compared(out, a, b []string) []string {
	if len(a)*len(b) > maxCompared {
		for _, line := range a {
			out = append(out, "-"+line)
		}
		for _, line := range b {
			out = append(out, "+"+line)
		}
		return out
	}
	width := len(b) + 1
	common := make([]int32, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*width+j] = common[(i+1)*width+j+1] + 1
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, " "+a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[(i+1)*width+j] >= common[i*width+j+1]:
			out = append(out, "-"+a[i])
			i++
		default:
			out = append(out, "+"+b[j])
			j++
		}
	}
	return out
}
