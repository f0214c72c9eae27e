package console

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

// included is a page of a list of the API with related resources.
type included[T, I any] struct {
	Resources  []T `json:"resources"`
	Included   I   `json:"included"`
	Pagination struct {
		Total int `json:"total_results"`
		Pages int `json:"total_pages"`
	} `json:"pagination"`
}

// pager is the position in a list that is shown in pages.
type pager struct {
	Page, Pages, Total int
	Noun               string // of what is listed, in the plural
	at                 string
	query              url.Values
}

// newPager returns the position that a request asks for, in a list of so many.
func newPager(r *http.Request, total, size int, noun string) pager {
	p := pager{Pages: max(1, (total+size-1)/size), Total: total, Noun: noun, at: r.URL.Path, query: r.URL.Query()}
	p.Page, _ = strconv.Atoi(p.query.Get("page"))
	p.Page = min(max(1, p.Page), p.Pages)
	return p
}

// link returns the address of another page, by its distance.
func (p pager) link(distance int) string {
	q := url.Values{}
	for key, values := range p.query {
		if key != "said" {
			q[key] = values
		}
	}
	q.Set("page", strconv.Itoa(p.Page+distance))
	return p.at + "?" + q.Encode()
}

// part returns the part of a list that a page shows.
func part[T any](p pager, of []T, size int) []T {
	return of[min(len(of), (p.Page-1)*size):min(len(of), p.Page*size)]
}

// problemOf returns the status and text of an error that is shown beside a form, so that what
// was typed is not lost; ok is false for other errors.
func problemOf(err error) (status int, text string, ok bool) {
	var e *fault.Error
	if !errors.As(err, &e) {
		return 0, "", false
	}
	switch e.Code {
	case fault.Internal, fault.Unauthenticated, fault.InvalidToken, fault.NotFound:
		return 0, "", false
	}
	return web.StatusOf(e.Code), e.Message, true
}

// goTo sends the browser to a page of the console, which says what was done.
func goTo(w http.ResponseWriter, r *http.Request, path, said string) error {
	if said != "" {
		path += "?said=" + said
	}
	http.Redirect(w, r, Path+path, http.StatusSeeOther) //nolint:gosec // a path of the console
	return nil
}

// confirmed returns an error unless the name of what is to be deleted was typed.
func confirmed(r *http.Request, name string) error {
	if r.PostForm.Get("confirm") != name {
		return fault.New(fault.Unprocessable, "Type the name %s to confirm.", name)
	}
	return nil
}
