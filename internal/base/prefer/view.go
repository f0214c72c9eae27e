package prefer

import (
	"net/url"
	"strconv"
	"strings"
)

// View is a part of the form: a page of what has a text.
type View struct {
	Find string
	Page int // from 1
}

// ViewOf returns the view that the query of an address asks for, or that a form was about.
func ViewOf(q url.Values) View {
	const most = 200
	v := View{Find: strings.TrimSpace(q.Get("find"))}
	if len(v.Find) > most {
		v.Find = strings.ToValidUTF8(v.Find[:most], "")
	}
	v.Page, _ = strconv.Atoi(q.Get("page"))
	v.Page = max(1, v.Page)
	return v
}

// Query returns what ViewOf reads, with "?", or "" for the first page of everything.
func (v View) Query() string {
	q := url.Values{}
	if v.Find != "" {
		q.Set("find", v.Find)
	}
	if v.Page > 1 {
		q.Set("page", strconv.Itoa(v.Page))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// beside returns the address of the page at a distance from this one, or "".
func (f *Form) beside(distance int) string {
	v := View{f.Find, f.Page + distance}
	if v.Page < 1 || v.Page > f.Pages {
		return ""
	}
	q := v.Query()
	if q == "" {
		q = "?page=1" // the address of the browser may have another page
	}
	return f.At + q
}
