package handbook

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"ingot/docs"
	"ingot/internal/base/pattern"
)

// Page is a document.
type Page struct {
	// Name is its path in docs without the ending: "tls", "tutorials/node". That of a README.md is its folder's.
	Name    string
	Title   string
	Summary string // what it is for, as docs/README.md says; empty below a folder
	Purpose string
	// Previous and Next are its neighbours in the index; nil at the ends.
	Previous, Next *Page

	file string
}

// Purpose is a part of the index.
type Purpose struct {
	Name  string
	Pages []*Page // without those below a folder
}

// book is the index.
type book struct {
	purposes []Purpose
	pages    []*Page // all of them, in order
	byName   map[string]*Page
}

var index = sync.OnceValue(func() *book { return read(docs.Files) })

// Purposes returns the index.
func Purposes() []Purpose { return index().purposes }

// All returns all pages, in the order of the index.
func All() []*Page { return index().pages }

// Find returns a page, or nil.
func Find(name string) *Page { return index().byName[name] }

// Source returns the text of the page, in Markdown.
func (p *Page) Source() []byte {
	b, _ := docs.Files.ReadFile(p.file) // it was found there
	return b
}

// Picture returns a picture of the documents by its name in docs/images.
func Picture(name string) ([]byte, bool) {
	b, err := docs.Files.ReadFile(path.Join("images", path.Base(name)))
	return b, err == nil
}

// indexFile is the document that lists the others, and that of a folder.
const indexFile = "README.md"

var (
	listed = pattern.OnUse(`^- \[[^\]]+\]\(([^)#]+\.md)\): (.+)`)
	linked = pattern.OnUse(`\]\(([^)#/]+\.md)\)`)
)

// read reads the index of a folder with documents.
func read(all fs.FS) *book {
	b := &book{byName: map[string]*Page{}}
	for line := range strings.Lines(join(fileText(all, indexFile))) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			b.purposes = append(b.purposes, Purpose{Name: strings.TrimSpace(name)})
			continue
		}
		m := listed().FindStringSubmatch(line)
		if m == nil || len(b.purposes) == 0 {
			continue
		}
		in := &b.purposes[len(b.purposes)-1]
		if p := b.add(all, m[1], in.Name); p != nil {
			p.Summary = strings.TrimSpace(Plain(m[2]))
			in.Pages = append(in.Pages, p)
		}
		folder := path.Dir(m[1])
		if path.Base(m[1]) != indexFile || folder == "." {
			continue
		}
		for _, one := range linked().FindAllStringSubmatch(fileText(all, m[1]), -1) {
			b.add(all, path.Join(folder, one[1]), in.Name)
		}
	}
	return b
}

// join puts the lines of list items together, which continue with spaces.
func join(text string) string { return strings.ReplaceAll(text, "\n  ", " ") }

func fileText(all fs.FS, name string) string {
	b, _ := fs.ReadFile(all, name) // a missing one is empty; the tests compare the index with the folder
	return string(b)
}

// add adds the page of a file, unless it is there or does not exist.
func (b *book) add(all fs.FS, file, purpose string) *Page {
	name := nameOf(file)
	text := fileText(all, file)
	if text == "" || b.byName[name] != nil {
		return nil
	}
	p := &Page{Name: name, Title: title(text), Purpose: purpose, file: file}
	if len(b.pages) > 0 {
		p.Previous = b.pages[len(b.pages)-1]
		p.Previous.Next = p
	}
	b.pages = append(b.pages, p)
	b.byName[name] = p
	return p
}

// nameOf returns the name of the page in a file.
func nameOf(file string) string {
	if path.Base(file) == indexFile {
		return strings.TrimPrefix(path.Dir(file), ".")
	}
	return strings.TrimSuffix(file, ".md")
}

// title returns the first heading of a document.
func title(text string) string {
	lines := strings.Split(text, "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "# ") })
	if i < 0 {
		return ""
	}
	return strings.ReplaceAll(strings.TrimSpace(lines[i][2:]), "`", "")
}
