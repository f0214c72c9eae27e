package docs

import (
	"embed"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/handbook"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

//go:embed pages/*.html assets/*
var files embed.FS

// Files are the templates of the documentation.
var Files = page.Files{FS: files}

// document is a page with its neighbours and its headings.
type document struct {
	*handbook.Page
	Body     any // template.HTML
	Headings []handbook.Heading
}

// found is what a search shows.
type found struct {
	Query string
	Hits  []handbook.Hit
}

// pages serves the documentation.
type pages struct {
	*page.Console
	searches searches

	mu    sync.Mutex
	fixed map[string]*page.Fixed // rendered pages by their name; the index has none
}

// New returns the documentation.
func New(core *page.Console) page.Part {
	c := &pages{Console: core, fixed: map[string]*page.Fixed{},
		searches: searches{now: time.Now, slots: make(chan struct{}, atOnce)}}
	return page.Part{Public: map[string]page.Handler{
		handbook.Path:                    c.index,
		handbook.Path + "/*":             c.document,
		handbook.Path + "/search":        c.search,
		handbook.Path + "/images/{name}": c.picture,
	}}
}

// index is GET /docs.
func (c *pages) index(w http.ResponseWriter, r *http.Request, _ *page.Session) error {
	return c.show(w, r, "", func() (string, page.Page) {
		return "docindex.html", page.Page{Title: "Documentation", Data: handbook.Purposes()}
	})
}

// document is GET /docs/NAME.
func (c *pages) document(w http.ResponseWriter, r *http.Request, _ *page.Session) error {
	name := strings.Trim(strings.TrimPrefix(r.URL.Path, handbook.Path), "/")
	p := handbook.Find(strings.TrimSuffix(name, ".md"))
	if p == nil {
		return fault.New(fault.NotFound, "There is no document %s. %s lists all of them.", name, handbook.Path)
	}
	return c.show(w, r, p.Name, func() (string, page.Page) {
		body, headings := p.HTML()
		return "document.html", page.Page{
			Title: p.Title, Crumbs: []page.Crumb{{Name: "Documentation", Link: handbook.Path}},
			Data: &document{Page: p, Body: body, Headings: below(headings)},
		}
	})
}

// below returns the headings that the page lists: those of its sections.
func below(all []handbook.Heading) []handbook.Heading {
	var sections []handbook.Heading
	for _, h := range all {
		if h.Level == 2 {
			sections = append(sections, h)
		}
	}
	return sections
}

// show writes a page, which it renders once. There are as many as there are documents.
func (c *pages) show(w http.ResponseWriter, r *http.Request, name string, render func() (string, page.Page)) error {
	c.mu.Lock()
	f := c.fixed[name]
	var err error
	if f == nil {
		if f, err = c.Fix(render()); err == nil {
			c.fixed[name] = f
		}
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.ShowFixed(w, r, f)
}

// picture is GET /docs/images/NAME. Pictures change with the version only.
func (c *pages) picture(w http.ResponseWriter, r *http.Request, _ *page.Session) error {
	name := web.Param(r, "name")
	b, ok := handbook.Picture(name)
	if !ok {
		return fault.New(fault.NotFound, "There is no picture %s.", name)
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(b) //nolint:gosec // a picture of the program, chosen by name; the client may be gone
	return nil
}

// search is GET /docs/search.
func (c *pages) search(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	data := found{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	if data.Query != "" {
		leave, err := c.searches.enter(web.AddressKey(c.Options.Proxies.Client(r)))
		if err != nil {
			w.Header().Set("Retry-After", "1")
			return err
		}
		defer leave()
		if data.Hits, err = handbook.Search(data.Query); err != nil {
			return err
		}
	}
	return c.Show(w, r, s, http.StatusOK, "docsearch.html", page.Page{
		Title: "Search", Crumbs: []page.Crumb{{Name: "Documentation", Link: handbook.Path}}, Data: data,
	})
}
