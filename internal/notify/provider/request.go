package provider

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/outbound"
	"ingot/internal/notify/template"
)

const (
	maxURL  = 8 << 10
	maxBody = 512 << 10
)

var errNoText = errors.New("the message has no text")

var errPath = errors.New(`a value in the path of "url" would lead elsewhere`)

// Request returns the call for a message, with an access token if the provider needs one.
func (c *Compiled) Request(o *notify.Outgoing, access string, at time.Time) (outbound.Request, error) {
	title, full := template.AsText(o.Body, o.Unsubscribe)
	if full == "" {
		full = title
	}
	if full == "" {
		return outbound.Request{}, errNoText
	}
	v := values{secrets: c.secrets, access: access, fields: map[string]string{"client": o.ClientID, "id": o.ID,
		"kind": o.KindID, "phone": o.To, "subject": title, "text": InSegments(full, c.segments), "user": o.UserID}}
	return c.request(v, at)
}

// Note is what a device shows of a message, and the token of the device. Title, URL, Icon and Topic are checked by the
// caller.
type Note struct{ Token, Title, Text, URL, Icon, Topic string }

// PushRequest returns the call for a message to a device, with an access token if the provider needs one.
func (c *Compiled) PushRequest(o *notify.Outgoing, n *Note, access string, at time.Time) (outbound.Request, error) {
	if n.Title == "" && n.Text == "" {
		return outbound.Request{}, errNoText
	}
	v := values{secrets: c.secrets, access: access, data: o.Data, omit: true, fields: map[string]string{
		"client": o.ClientID, "id": o.ID, "kind": o.KindID, "user": o.UserID, "token": n.Token, "title": n.Title,
		"text": cut(clean(n.Text), c.maxText), "url": n.URL, "icon": n.Icon, "topic": n.Topic}}
	return c.request(v, at)
}

func (c *Compiled) request(v values, at time.Time) (outbound.Request, error) {
	for name, value := range v.fields {
		v.fields[name] = clean(value)
	}
	r := outbound.Request{Method: c.method, Header: http.Header{"Accept": {"application/json, text/plain, */*"}}, At: at}
	var err error
	if r.URL, err = c.url(v); err != nil {
		return r, err
	}
	for name, t := range c.headers {
		if t.absent(v) {
			continue
		}
		r.Header[name] = []string{strings.TrimSpace(t.render(v, inHeader))}
	}
	switch {
	case c.form != nil:
		form := url.Values{}
		for name, t := range c.form {
			if t.absent(v) {
				continue
			}
			form.Set(name, t.render(v, asIs))
		}
		r.Body = []byte(form.Encode())
	case c.kind != "":
		if r.Body, err = json.Marshal(rendered(c.json, v)); err != nil {
			return r, err
		}
	}
	if c.kind != "" {
		r.Header["Content-Type"] = []string{c.kind}
	}
	if len(r.URL) > maxURL || len(r.Body) > maxBody {
		return r, errTooLong
	}
	return r, nil
}

// url returns the address with escaped values. They change neither the host nor the number of the path's segments.
func (c *Compiled) url(v values) (string, error) {
	path := c.path.render(v, url.PathEscape)
	for segment := range strings.SplitSeq(path, "/") {
		if plain, err := url.PathUnescape(segment); err != nil || plain == "." || plain == ".." {
			return "", errPath
		}
	}
	made := c.base + path
	if c.asks {
		made += "?" + c.query.render(v, url.QueryEscape)
	}
	u, err := url.Parse(made)
	if err != nil || u.Scheme+"://"+u.Host != c.base || u.Fragment != "" || u.User != nil {
		return "", errPath
	}
	return made, nil
}

// inHeader replaces what would end a header.
func inHeader(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// rendered returns a part of a body with the values in its texts. It is encoded as a whole, so no value ends its text.
func rendered(part any, v values) any {
	switch part := part.(type) {
	case text:
		return part.render(v, asIs)
	case []any:
		list := make([]any, len(part))
		for i := range part {
			list[i] = rendered(part[i], v)
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(part))
		for key, of := range part {
			if t, ok := of.(text); ok && t.absent(v) {
				continue
			}
			object[key] = rendered(of, v)
		}
		return object
	}
	return part
}
