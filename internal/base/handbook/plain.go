package handbook

import (
	"regexp"
	"strings"

	"ingot/internal/base/pattern"
)

var (
	comment   = pattern.OnUse(`(?s)<!--.*?-->`)
	link      = pattern.OnUse(`!?\[([^\]]*)\]\([^)\s]*\)`)
	separator = pattern.OnUse(`(?m)^\|[-:| ]+\|$`)
	fence     = pattern.OnUse("(?m)^ *```.*$")
	halfLink  = pattern.OnUse(`\]\([^)\s]*\)?`)
	hashes    = pattern.OnUse(`(?m)^#+ *`) // of headings
	marks     = strings.NewReplacer("`", "", "**", "", " | ", " · ", "| ", "", " |", "")
)

// Plain returns a part of a document without its markup, for an excerpt.
func Plain(source string) string {
	for _, markup := range []func() *regexp.Regexp{comment, separator, fence, hashes} {
		source = markup().ReplaceAllString(source, "")
	}
	return marks.Replace(halfLink().ReplaceAllString(Unlinked(source), ""))
}

// Unlinked returns a text with the texts of its links only.
func Unlinked(source string) string { return link().ReplaceAllString(source, "$1") }
