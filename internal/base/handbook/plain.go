package handbook

import (
	"regexp"
	"strings"
)

var (
	comment   = regexp.MustCompile(`(?s)<!--.*?-->`)
	link      = regexp.MustCompile(`!?\[([^\]]*)\]\([^)\s]*\)`)
	separator = regexp.MustCompile(`(?m)^\|[-:| ]+\|$`)
	fence     = regexp.MustCompile("(?m)^ *```.*$")
	halfLink  = regexp.MustCompile(`\]\([^)\s]*\)?`)
	hashes    = regexp.MustCompile(`(?m)^#+ *`) // of headings
	marks     = strings.NewReplacer("`", "", "**", "", " | ", " · ", "| ", "", " |", "")
)

// Plain returns a part of a document without its markup, for an excerpt.
func Plain(source string) string {
	for _, pattern := range []*regexp.Regexp{comment, separator, fence, hashes} {
		source = pattern.ReplaceAllString(source, "")
	}
	return marks.Replace(halfLink.ReplaceAllString(Unlinked(source), ""))
}

// Unlinked returns a text with the texts of its links only.
func Unlinked(source string) string { return link.ReplaceAllString(source, "$1") }
