package page

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Pager is the position in a list that is shown in pages.
type Pager struct {
	Page, Pages, Total int
	Noun               string // what is listed, in the plural
	At                 string
	Query              url.Values
}

// NewPager returns the position that a request asks for in a list of total entries.
func NewPager(r *http.Request, total, size int, noun string) Pager {
	p := Pager{Pages: max(1, (total+size-1)/size), Total: total, Noun: noun, At: r.URL.Path, Query: r.URL.Query()}
	p.Page, _ = strconv.Atoi(p.Query.Get("page"))
	p.Page = min(max(1, p.Page), p.Pages)
	return p
}

// link returns the address of another page, by its distance.
func (p Pager) link(distance int) string {
	q := url.Values{}
	for key, values := range p.Query {
		if key != "said" {
			q[key] = values
		}
	}
	q.Set("page", strconv.Itoa(p.Page+distance))
	return p.At + "?" + q.Encode()
}

// Visible returns the part of a list that a page shows.
func Visible[T any](p Pager, of []T, size int) []T {
	return of[min(len(of), (p.Page-1)*size):min(len(of), p.Page*size)]
}

// Matches reports whether a name contains a text, in any case.
func Matches(name, text string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(text))
}

// PerPage is how many apps a page lists.
const PerPage = 50
