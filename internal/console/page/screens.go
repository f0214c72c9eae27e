package page

import (
	"net/http"
	"path"
)

// Screen is a page that shows what it loads.
type Screen struct {
	Title, Section, Template string
	Crumbs                   []Crumb
	Load                     func(r *http.Request, s *Session) (any, error)
	// Live is the name of a page that is rendered again while it is visible. Its template is the
	// last part of the name with -live.
	Live string
	// LiveAt returns the query of the live part, and whether the page is live; nil means always,
	// without a query.
	LiveAt func(r *http.Request, data any) (query string, live bool)
}

// SameQuery is for screens whose live part depends on the query of the page.
func SameQuery(r *http.Request, _ any) (string, bool) { return r.URL.RawQuery, true }

// AsLive returns the screen with a live part.
func (one Screen) AsLive(name string, at func(*http.Request, any) (string, bool)) Screen {
	one.Live, one.LiveAt = name, at
	return one
}

// screen returns the handler of a screen.
func (c *Console) screen(one Screen) Handler {
	return func(w http.ResponseWriter, r *http.Request, s *Session) error {
		data, err := one.Load(r, s)
		if err != nil {
			return err
		}
		p := Page{Title: one.Title, Section: one.Section, Live: one.Live, Crumbs: one.Crumbs, Data: data}
		if one.LiveAt != nil {
			query, live := one.LiveAt(r, data)
			switch {
			case !live:
				p.Live = ""
			case query != "":
				p.Live += "?" + query
			}
		}
		return c.Show(w, r, s, http.StatusOK, one.Template, p)
	}
}

// view returns the live part of a screen.
func (one Screen) view(r *http.Request, s *Session) *View {
	return &View{Fragment: path.Base(one.Live) + "-live", Load: func() (any, error) { return one.Load(r, s) }}
}
