package template

import (
	"slices"
	"time"

	"golang.org/x/text/language"

	"ingot/internal/notify"
)

// Values are the values of a template's variables. HTML is the caller's document,
// which Render splits and cleans. KindDescription is the kind's id if it has no
// description; Render replaces an empty SourceDescription by the client's id.
type Values struct {
	From, ReplyTo, To                                string
	Subject, Text, HTML                              string
	KindDescription, SourceDescription               string
	UserGUID, ClientID, MessageID                    string
	Space, SpaceGUID, Organization, OrganizationGUID string
	UnsubscribeID                                    string
	// UnsubscribeURL is the address of the page where the recipient unsubscribes,
	// or notify.UnsubscribeMark; empty if the recipient cannot unsubscribe.
	UnsubscribeURL                       string
	Scope, Endorsement, OrganizationRole string
	RequestReceived                      time.Time
	Domain                               string
	// Data is what the caller sent for templates: objects, lists, strings, booleans and
	// json.Number. Locale is how numbers are formatted; empty means English.
	Data   map[string]any
	Locale language.Tag
	// Digest is what a digest has collected, see notify.Digest.Data; nil for other messages.
	Digest map[string]any
}

// kind is the type of a value. It is known at compile time, except for what comes from .Data
// and from and/or, which may return either of two kinds: both are kindAny.
type kind uint8

const (
	kindAny    kind = iota
	kindText        // a string, to be escaped
	kindMarkup      // a string of cleaned HTML
	kindLink        // .UnsubscribeURL: a string that may be a mark, see Values
	kindAttrs       // a string of cleaned attributes
	kindBool
	kindInt
	kindDecimal // a number that is no integer, written as its caller did
	kindTime
	kindData       // an object or a list of .Data, or nothing
	kindRoot       // all variables
	kindComponents // .HTMLComponents
)

func (k kind) isString() bool {
	return k == kindText || k == kindMarkup || k == kindAttrs || k == kindLink
}

type value struct {
	kind kind
	s    string
	n    int       // of kindInt; 1 or 0 of kindBool
	t    time.Time // of kindTime
	data any       // of kindData: map[string]any, []any or nil
}

func text(s string) value { return value{kind: kindText, s: s} }

func truth(b bool) value {
	if b {
		return value{kind: kindBool, n: 1}
	}
	return value{kind: kindBool}
}

func moment(t time.Time) value { return value{kind: kindTime, t: t} }

func (v value) true() bool {
	switch v.kind {
	case kindDecimal:
		f, _ := v.number()
		return f != 0
	case kindData:
		return size(v.data) > 0
	}
	return v.s != "" || v.n != 0 || v.kind == kindTime
}

// renderInput is the input of one rendering.
type renderInput struct {
	Values
	source notify.Template
	doc    *document // the parts of HTML, which may be empty
}

// variable is a name that templates may use.
type variable struct {
	name  string
	about string // for people
	kind  kind
	// personal variables differ between the recipients of one audience.
	personal bool
	get      func(*renderInput) string
	time     func(*renderInput) time.Time      // of kindTime, instead of get
	data     func(*renderInput) map[string]any // of kindData, instead of get

}

var variables = []variable{
	{name: "From", about: "the sender's address", get: func(s *renderInput) string { return s.From }},
	{name: "ReplyTo", about: "the address for answers", get: func(s *renderInput) string { return s.ReplyTo }},
	{name: "To", about: "the recipient's address", personal: true, get: func(s *renderInput) string { return s.To }},
	{name: "Subject", about: "the subject of the message", get: func(s *renderInput) string { return s.Subject }},
	{name: "Text", about: "the text of the message", get: func(s *renderInput) string { return s.Text }},
	{name: "HTML", about: "the HTML of the message, without active content", kind: kindMarkup,
		get: func(s *renderInput) string { return s.doc.body }},
	{name: "HTMLComponents.BodyContent", about: "the content of the message's body element", kind: kindMarkup,
		get: func(s *renderInput) string { return s.doc.body }},
	{name: "HTMLComponents.BodyAttributes", about: "the attributes of the message's body element", kind: kindAttrs,
		get: func(s *renderInput) string { return s.doc.bodyAttrs }},
	{name: "HTMLComponents.Head", about: "the content of the message's head element", kind: kindMarkup,
		get: func(s *renderInput) string { return s.doc.head }},
	{name: "HTMLComponents.Doctype", about: "the doctype of the message", kind: kindMarkup,
		get: func(s *renderInput) string { return s.doc.doctype }},
	{name: "TextTemplate", about: "the source of this template's text",
		get: func(s *renderInput) string { return s.source.Text }},
	{name: "HTMLTemplate", about: "the source of this template's HTML",
		get: func(s *renderInput) string { return s.source.HTML }},
	{name: "SubjectTemplate", about: "the source of this template's subject",
		get: func(s *renderInput) string { return s.source.Subject }},
	{name: "KindDescription", about: "the description of the kind",
		get: func(s *renderInput) string { return s.KindDescription }},
	{name: "SourceDescription", about: "the name of the sending client",
		get: func(s *renderInput) string { return s.SourceDescription }},
	{name: "UserGUID", about: "the recipient's guid", personal: true,
		get: func(s *renderInput) string { return s.UserGUID }},
	{name: "ClientID", about: "the id of the sending client", get: func(s *renderInput) string { return s.ClientID }},
	{name: "MessageID", about: "the id of the message", personal: true,
		get: func(s *renderInput) string { return s.MessageID }},
	{name: "Space", about: "the name of the space it was sent to", get: func(s *renderInput) string { return s.Space }},
	{name: "SpaceGUID", about: "the guid of that space", get: func(s *renderInput) string { return s.SpaceGUID }},
	{name: "Organization", about: "the name of the organization it was sent to",
		get: func(s *renderInput) string { return s.Organization }},
	{name: "OrganizationGUID", about: "the guid of that organization",
		get: func(s *renderInput) string { return s.OrganizationGUID }},
	{name: "UnsubscribeID", about: "identifies recipient and kind for another unsubscribe page", personal: true,
		get: func(s *renderInput) string { return s.UnsubscribeID }},
	{name: "Scope", about: "the scope it was sent to", get: func(s *renderInput) string { return s.Scope }},
	{name: "Endorsement", about: "why the recipient gets the message",
		get: func(s *renderInput) string { return s.Endorsement }},
	{name: "OrganizationRole", about: "the role it was sent to",
		get: func(s *renderInput) string { return s.OrganizationRole }},
	{name: "UnsubscribeURL", about: "the page where the recipient unsubscribes; empty for critical kinds", kind: kindLink,
		get: func(s *renderInput) string { return s.UnsubscribeURL }},
	{name: "RequestReceived", about: "when the send was accepted", kind: kindTime,
		time: func(s *renderInput) time.Time { return s.RequestReceived }},
	{name: "Domain", about: "the domain of the installation", get: func(s *renderInput) string { return s.Domain }},
	{name: dataVariable, about: "the data of the send and of the recipient: .Data.order.total", kind: kindData,
		data: func(s *renderInput) map[string]any { return s.Data }},
	{name: "Digest", about: "what a digest has collected: .Digest.Count, .Digest.Items with .Subject, .Text, .At and " +
		".Data, .Digest.More", kind: kindData, data: func(s *renderInput) map[string]any { return s.Digest }},
}

// Variable describes a variable to the authors of templates.
type Variable struct {
	Name  string `json:"name"`
	About string `json:"description"`
}

// Variables returns all variables of templates.
func Variables() []Variable {
	all := make([]Variable, 0, len(variables))
	for _, v := range variables {
		all = append(all, Variable{v.name, v.about})
	}
	return all
}

const components = "HTMLComponents"

func findVariable(name string) (*variable, bool) {
	i := slices.IndexFunc(variables, func(v variable) bool { return v.name == name })
	if i < 0 {
		return nil, false
	}
	return &variables[i], true
}

func (v *variable) value(s *renderInput) value {
	if v.time != nil {
		return moment(v.time(s))
	}
	if v.kind == kindData {
		return value{kind: kindData, data: v.data(s)}
	}
	k := v.kind
	if k == kindAny {
		k = kindText
	}
	return value{kind: k, s: v.get(s)}
}
