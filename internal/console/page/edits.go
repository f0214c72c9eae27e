package page

import (
	"cmp"
	"net/http"
	"net/url"

	"ingot/internal/base/pattern"
	"ingot/internal/base/web"
)

// Edit is the target of a form that changes something with one call to an API. Path and To name
// parameters of the route, or fields of the form, in braces.
type Edit struct {
	Method, Path string
	Header       map[string]string
	Body         func(form url.Values) (any, error) // nil means none
	To, Said     string                             // the page that follows, and what it says
	// Failed shows the page of the form again; nil means that an error has its own page.
	Failed func(w http.ResponseWriter, r *http.Request, s *Session, err error) error
}

// API calls an API for the user of a session, such as Console.Platform.
type API func(r *http.Request, s *Session) *Caller

// Edit returns the handler of a form.
func (call API) Edit(e Edit) Handler {
	return func(w http.ResponseWriter, r *http.Request, s *Session) (err error) {
		var body any
		if e.Body != nil {
			body, err = e.Body(r.PostForm)
		}
		if err == nil {
			err = call(r, s).With(e.Header, e.Method, filled(r, e.Path), body, nil)
		}
		if err != nil && e.Failed != nil {
			return e.Failed(w, r, s, err)
		}
		if err != nil {
			return err
		}
		return GoTo(w, r, filled(r, e.To), e.Said)
	}
}

var parameter = pattern.OnUse(`\{\w+\}`)

// filled replaces the names in braces by the values that a request has.
func filled(r *http.Request, path string) string {
	return parameter().ReplaceAllStringFunc(path, func(name string) string {
		name = name[1 : len(name)-1]
		return url.PathEscape(cmp.Or(web.Param(r, name), r.PostForm.Get(name)))
	})
}
