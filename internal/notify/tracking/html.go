package tracking

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"ingot/internal/notify"
)

// Paths of links and images, below the URL of the service.
const (
	LinkPath  = "/links/"
	ImagePath = "/images/"
)

// maxLinks limits the links of a message that are marked; others stay as they are.
const maxLinks = 500

// HTML returns a message's HTML with marks: links lead over the service at base, and the last element of the body is
// its image. All else stays as it is, byte for byte.
func (m *Marker) HTML(in, base string, k Mark, what notify.Tracking) string {
	base = strings.TrimSuffix(base, "/")
	var out strings.Builder
	out.Grow(len(in) + len(in)/2)
	end, links, read := -1, 0, 0 // end is that of the body, in out
	for z := html.NewTokenizer(strings.NewReader(in)); z.Next() != html.ErrorToken; {
		raw := string(z.Raw()) // before its names are lowered in place
		read += len(raw)
		t := z.Token()
		switch t.Type {
		case html.StartTagToken, html.SelfClosingTagToken:
			if i := target(t, base); i >= 0 && what.Has(notify.TrackClicks) && links < maxLinks {
				links++
				k.Type, k.Target = notify.Clicked, strings.TrimSpace(t.Attr[i].Val)
				t.Attr[i].Val = base + LinkPath + m.Seal(k)
				raw = t.String()
			}
		case html.EndTagToken:
			if t.Data == "body" {
				end = out.Len()
			}
		}
		out.WriteString(raw)
	}
	out.WriteString(in[read:]) // a tag without an end
	marked := out.String()
	if !what.Has(notify.TrackOpens) {
		return marked
	}
	if end < 0 {
		end = len(marked)
	}
	k.Type, k.Target = notify.Opened, ""
	image := `<img src="` + html.EscapeString(base+ImagePath+m.Seal(k)) + `" width="1" height="1" alt="">`
	return marked[:end] + image + marked[end:]
}

// target returns the attribute of a tag with a link to mark, -1 if there is none.
func target(t html.Token, base string) int {
	if t.Data != "a" && t.Data != "area" {
		return -1
	}
	i := slices.IndexFunc(t.Attr, func(a html.Attribute) bool { return a.Key == "href" })
	if i < 0 {
		return -1
	}
	link := strings.TrimSpace(t.Attr[i].Val)
	if !webAddress(link) || link == base || strings.HasPrefix(link, base+"/") ||
		strings.Contains(link, notify.UnsubscribeMark) || chooses(link) {
		return -1
	}
	return i
}

// chooses reports whether a link seems to lead to where recipients say what they want, which is not
// counted.
func chooses(link string) bool {
	u, err := url.Parse(link)
	if err != nil {
		return true
	}
	path := strings.ToLower(u.Path)
	return slices.ContainsFunc([]string{"unsubscribe", "preference", "opt-out", "optout"},
		func(word string) bool { return strings.Contains(path, word) })
}
