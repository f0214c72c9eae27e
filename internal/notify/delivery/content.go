package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/text/language"

	"ingot/internal/base/background"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/template"
)

// errStore means that a template could not be read, as opposed to rendered.
var errStore = errors.New("the store failed")

// contents renders the bodies of messages.
type contents struct {
	o Options

	mu        sync.Mutex
	templates map[templateKey]*chosen
	bodies    map[bodyKey]*notify.Body
	order     []bodyKey // of bodies, oldest first
	bytes     int
	data      *recipientData
	files     *attachments
}

// templateKey is what the choice of a template depends on.
type templateKey struct{ client, kind, campaignType, asked string }

func keyOf(s *notify.Send) templateKey {
	return templateKey{s.ClientID, s.KindID, s.CampaignTypeID, s.TemplateID}
}

type chosen struct {
	compiled *template.Compiled
	variants *variants // nil if there are none
	id       string
	version  int64
	state    string    // of the template and its partials
	err      error     // why it cannot be used
	at       time.Time // when it was chosen
}

// bodyKey identifies a body that all recipients of an audience share.
type bodyKey struct {
	send     int64
	audience int
	chat     bool
	with     *template.Compiled
	locale   language.Tag // und if it makes no difference
}

const (
	// templatesFor is how long a template is cached for sends that were
	// accepted before it was changed.
	templatesFor  = 2 * time.Second
	manyTemplates = 500
	// Bodies are cached for sends whose messages come in many batches.
	manyBodies     = 200
	manyBodiesSize = 16 << 20
)

func newContents(o Options) *contents {
	return &contents{o: o, templates: map[templateKey]*chosen{}, bodies: map[bodyKey]*notify.Body{},
		data: newRecipientData(o.Store), files: newAttachments(o.Store)}
}

// body renders a message. own reports whether the body is not shared.
func (c *contents) body(ctx context.Context, l *message) (body *notify.Body, own bool, err error) {
	chosen, err := c.template(ctx, l.Send)
	if chosen != nil {
		l.template, l.version = chosen.id, chosen.version
	}
	if err != nil {
		return nil, false, err
	}
	with, locale, err := c.inLanguage(ctx, chosen, l)
	if err == nil && l.Channel != notify.Email && chosen.id == notify.DefaultTemplate {
		with, err = unframed()
		l.template, l.version = notify.DefaultTemplateV2, 0
	}
	if err != nil {
		return nil, false, err
	}
	list := l.Send.List() != ""
	if with.Personal() || list && with.UsesData() {
		body, err := c.personal(ctx, with, l, locale)
		return body, true, err
	}
	key := bodyKey{l.Send.Number, l.Audience, l.Channel == notify.Chat, with, locale}
	if list { // what differs is whether a user or an address is told why
		key.audience = min(len(l.UserID), 1)
	}
	c.mu.Lock()
	have := c.bodies[key]
	c.mu.Unlock()
	if have != nil {
		return have, false, nil
	}
	link := c.link(l)
	if link != "" {
		link = notify.UnsubscribeMark
	}
	values, err := c.values(ctx, l, link, locale)
	if err != nil {
		return nil, false, err
	}
	body, err = c.render(with, values)
	if errors.Is(err, template.ErrPersonal) {
		body, err = c.personal(ctx, with, l, locale)
		return body, true, err
	}
	if err != nil {
		return nil, false, err
	}
	return c.keep(key, body), false, nil
}

// unframed is the default template outside of mail: only the caller's content. That of mail names the platform in each
// subject, says why one gets it, and ends with a link to unsubscribe.
var unframed = sync.OnceValues(func() (*template.Compiled, error) { return compile(template.DefaultV2()) })

// personal renders a message that no other recipient gets.
func (c *contents) personal(ctx context.Context, with *template.Compiled, l *message,
	locale language.Tag) (*notify.Body, error) {
	values, err := c.values(ctx, l, c.link(l), locale)
	if err != nil {
		return nil, err
	}
	return c.render(with, values)
}

// keep remembers a body, and returns the one that another worker was faster with.
func (c *contents) keep(key bodyKey, body *notify.Body) *notify.Body {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.bodies[key]; have != nil {
		return have
	}
	c.bodies[key] = body
	c.order = append(c.order, key)
	c.bytes += size(body)
	for len(c.order) > 1 && (len(c.order) > manyBodies || c.bytes > manyBodiesSize) {
		c.bytes -= size(c.bodies[c.order[0]])
		delete(c.bodies, c.order[0])
		c.order = c.order[1:]
	}
	return body
}

func size(b *notify.Body) int { return len(b.Subject) + len(b.Text) + len(b.HTML) }

// render never panics, whatever the template and the content are.
func (c *contents) render(with *template.Compiled, v template.Values) (body *notify.Body, err error) {
	defer func() {
		if p := recover(); p != nil {
			body, err = nil, fmt.Errorf("the template ended unexpectedly: %v", p)
		}
	}()
	return with.Render(v)
}

// values returns what a template can show to a recipient. link is the address to
// unsubscribe, or the mark.
func (c *contents) values(ctx context.Context, l *message, link string, locale language.Tag) (template.Values, error) {
	s := l.Send
	data, err := c.data.of(ctx, l)
	if err != nil {
		return template.Values{}, err
	}
	v := template.Values{
		From: c.o.From, ReplyTo: s.Content.ReplyTo, To: l.to(),
		Subject: s.Content.Subject, Text: s.Content.Text, HTML: s.Content.HTML,
		KindDescription: s.KindDescription, SourceDescription: s.SourceDescription,
		UserGUID: l.UserID, ClientID: s.ClientID, MessageID: c.o.IDs.Message(l.Number),
		UnsubscribeID: c.token(l), UnsubscribeURL: link,
		RequestReceived: s.Received.UTC(), Domain: c.o.Domain, Data: data, Locale: locale,
	}
	if s.Digest != nil {
		if v.Digest, err = s.Digest.Data(); err != nil {
			return template.Values{}, err
		}
		if s.Digest.Count > 1 {
			v.Text, v.HTML = s.Digest.List()
		}
	}
	if a := audienceOf(l); a != nil {
		v.Endorsement = template.Endorse(*a, s.CampaignTypeID != "")
		switch a.Type {
		case notify.ToSpace:
			v.Space, v.SpaceGUID, v.Organization, v.OrganizationGUID = a.SpaceName, a.ID, a.OrgName, a.OrgID
		case notify.ToOrg:
			v.Organization, v.OrganizationGUID, v.OrganizationRole = a.OrgName, a.ID, a.Role
		case notify.ToScope:
			v.Scope = a.ID
		}
	}
	if l.Channel == notify.Chat { // which is not told why it gets a message
		v.Endorsement = ""
		if len(s.Audiences) == 1 && s.Audiences[0].Type == notify.ToUser {
			v.UserGUID = s.Audiences[0].ID
		}
	}
	return v, nil
}

// audienceOf returns the audience that a message belongs to. To the members of a list it is
// sent directly.
func audienceOf(l *message) *notify.Audience {
	switch {
	case l.Send.List() == "" && l.Audience < len(l.Send.Audiences):
		return &l.Send.Audiences[l.Audience]
	case l.Send.List() == "":
		return nil
	case l.UserID != "":
		return &notify.Audience{Type: notify.ToUser, ID: l.UserID}
	}
	return &notify.Audience{Type: notify.ToEmail, ID: l.Email}
}

// token lets the recipient unsubscribe; empty when there is nothing to
// unsubscribe from.
func (c *contents) token(l *message) string {
	if l.token == nil {
		made := ""
		ref := l.Send.Preferred()
		if c.o.Unsubscriber != nil && l.subscriber() != "" && !l.Send.Critical && ref.KindID != "" {
			made = c.o.Unsubscriber.Make(actions.Grant{UserID: l.subscriber(), Kind: ref, OnlyKind: !l.private()})
		}
		l.token = &made
	}
	return *l.token
}

// private reports whether only the recipient learns the link: in mail that the operator's template makes of plain text,
// and that is answered to the operator. Calls of other channels go to services that the client chose, the client reads
// what is in inboxes, its templates can put the link into the address of a picture, its HTML can have a style sheet
// that loads a picture for each character of the link, and who answers it quotes the mail. With such a link it must not
// get at what others send. The header has the same link as the body, because automatic replies quote headers too.
func (l *message) private() bool {
	c := &l.Send.Content
	return l.Channel == notify.Email && c.HTML == "" && c.ReplyTo == "" && c.Event == nil &&
		(l.template == notify.DefaultTemplate || l.template == notify.DefaultTemplateV2)
}

// link is the address that a mail's List-Unsubscribe names.
func (c *contents) link(l *message) string {
	if c.o.BaseURL == "" {
		return ""
	}
	if t := c.token(l); t != "" {
		return c.o.BaseURL + "/unsubscribe/" + t
	}
	return ""
}

// template returns the compiled template of a send. It is cached for a short
// time, but never from before the send was accepted: a client that changes a
// template and then sends gets the new one.
func (c *contents) template(ctx context.Context, s *notify.Send) (*chosen, error) {
	key := keyOf(s)
	now := c.o.Now()
	c.mu.Lock()
	have := c.templates[key]
	c.mu.Unlock()
	if have != nil && now.Sub(have.at) < templatesFor && !have.at.Before(s.Received) {
		return have, have.err
	}
	source, err := c.choose(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStore, err)
	}
	made := &chosen{id: source.ID, version: source.Version, state: source.State(), at: now}
	if have != nil && have.err == nil && made.state == have.state {
		made.compiled, made.variants = have.compiled, have.variants // unchanged: cached bodies stay valid
	} else {
		made.variants = newVariants(source)
		own, _, _ := source.For(language.Und)
		made.compiled, made.err = compile(own)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.templates) >= manyTemplates {
		clear(c.templates)
	}
	c.templates[key] = made
	return made, made.err
}

// prepare chooses the templates of a batch side by side, which makes few reads of a store that others
// share. Errors are left to body.
func (c *contents) prepare(ctx context.Context, messages []message) {
	if !c.o.Store.Shared() {
		return
	}
	newest := map[templateKey]*notify.Send{}
	for i := range messages {
		s := messages[i].Send
		if have := newest[keyOf(s)]; have == nil || have.Received.Before(s.Received) {
			newest[keyOf(s)] = s
		}
	}
	var all background.WaitGroup
	for _, s := range newest {
		all.Go("templates of a batch", func() { _, _ = c.template(ctx, s) })
	}
	all.Wait()
}

func compile(source notify.Template) (made *template.Compiled, err error) {
	defer func() {
		if p := recover(); p != nil {
			made, err = nil, fmt.Errorf("the template %q cannot be read: %v", source.ID, p)
		}
	}()
	return template.Compile(source)
}

// choose finds the template: the requested one, else the kind's, else the
// client's, else the default. Deleted templates are skipped.
func (c *contents) choose(ctx context.Context, s *notify.Send) (notify.Template, error) {
	fallback, builtin := notify.DefaultTemplate, template.Default
	var client notify.Client
	next := []func() (string, error){
		func() (id string, err error) {
			var kind notify.Kind
			client, kind, err = c.o.Store.Registration(ctx, notify.KindRef{ClientID: s.ClientID, KindID: s.KindID})
			return kind.TemplateID, err
		},
		func() (string, error) { return client.TemplateID, nil },
	}
	if s.CampaignTypeID != "" {
		fallback, builtin = notify.DefaultTemplateV2, template.DefaultV2
		next = []func() (string, error){func() (string, error) {
			t, err := c.o.Store.CampaignType(ctx, s.CampaignTypeID)
			return t.TemplateID, err
		}}
	}
	next = append([]func() (string, error){func() (string, error) { return s.TemplateID, nil }}, next...)
	next = append(next, func() (string, error) { return fallback, nil })
	for i, candidate := range next {
		id, err := candidate()
		switch {
		case errors.Is(err, notify.ErrNotFound):
			continue
		case err != nil:
			return notify.Template{}, err
		}
		if id == notify.DefaultTemplate {
			if i > 0 && i < len(next)-1 {
				continue // none assigned
			}
			id = fallback
		}
		if id == "" {
			continue
		}
		t, err := c.o.Store.Template(ctx, id)
		switch {
		case err == nil:
			return t, nil
		case !errors.Is(err, notify.ErrNotFound):
			return notify.Template{}, err
		case id == fallback:
			return builtin(), nil
		}
	}
	return builtin(), nil
}
