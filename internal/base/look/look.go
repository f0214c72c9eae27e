package look

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io/fs"
	"strings"
	"time"
)

var (
	// CSS is the style sheet.
	//
	//go:embed look.css
	CSS string
	// Times is the script that shows times in the reader's zone, with the exact value as
	// their title.
	//
	//go:embed times.js
	Times string
	// Mark is the mark of Ingot, as SVG.
	//
	//go:embed mark.svg
	Mark string

	//go:embed head.html
	head embed.FS
)

// Parse returns the templates of some files together with "head" and "foot", which begin and
// end a page, and "time", which shows a time.Time. The argument of head is the title.
func Parse(files fs.FS, more template.FuncMap, patterns ...string) (*template.Template, error) {
	mark := "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(Mark))
	t, err := template.New("").Funcs(template.FuncMap{
		"style": func() template.CSS { return template.CSS(CSS) },  //nolint:gosec // an embedded file
		"times": func() template.JS { return template.JS(Times) },  //nolint:gosec // an embedded file
		"mark":  func() template.URL { return template.URL(mark) }, //nolint:gosec // an embedded file
		"exact": Exact,
		"iso":   ISO,
	}).Funcs(more).ParseFS(head, "*.html")
	if err != nil {
		return nil, err
	}
	return t.ParseFS(files, patterns...)
}

// Exact returns a time for people. The script replaces it with one in the reader's zone.
func Exact(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// ISO returns a time for the attribute datetime.
func ISO(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Policy returns the content security policy of a page that begins with "head". A page that
// needs more than the style sheet, the mark and the script adds directives.
func Policy(more ...string) string {
	return strings.Join(append([]string{
		"default-src 'none'", "style-src " + source(CSS), "script-src " + source(Times), "img-src data:",
		"frame-ancestors 'none'", "base-uri 'none'",
	}, more...), "; ")
}

// source allows an inline element by its content.
func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
