package apitest_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/net/html"

	"ingot/internal/base/testkit"
	"ingot/internal/base/web/openapitest"
	"ingot/internal/notify"
	"ingot/internal/notify/httpext"
)

// arrival is how messages of a channel arrive: by their public ids, what is shown of them, and what is wrong with them.
type arrival func(s *site) (texts map[string]string, problems []string)

// arrivals has a row for each channel; one that is added fails without.
var arrivals = map[notify.ChannelID]arrival{
	notify.Email: mailed, notify.Inbox: kept,
	notify.Hook: posted("/webhook", []string{"id", "send_id", "client_id", "kind_id", "recipient", "subject", "text",
		"html", "data", "unsubscribe_url", "attempt", "created_at"}),
	notify.Chat: chatted,
	notify.SMS:  posted("/sms", []string{"id", "to", "subject", "text", "end"}),
	notify.Push: pushed,
}

// TestHostileChannels sends what is hostile in each field of a send to all channels. It arrives as text, or was
// refused.
func TestHostileChannels(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.openBank()
	d, err := openapitest.Parse(httpext.DescriptionV1(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &hostileAPI{site: s, doc: d, version: 1}
	schema, ok := h.schemaOf(d.At("paths", "/sends", "post"))
	if !ok {
		t.Fatal("sends have no body")
	}
	c := s.Client("bank")
	var sent []planted
	number := 0
	send := func(at field, input, text string) {
		number++
		text = s.fill(strings.ReplaceAll(text, mark, fmt.Sprintf("mark%dx", number)))
		body := any(map[string]any{"kind_id": "news", "subject": "subject", "text": "the text",
			"data": map[string]any{"x": "x"}, "recipients": []any{map[string]any{"user": theUser}}})
		if len(at) > 1 && at[0] == "event" {
			body = with(body, field{"event"}, `{"uid":"a","start":"2030-01-01T10:00","end":"2030-01-01T11:00","zone":"Europe/Berlin",
				"summary":"s","location":"l","description":"d","organizer":{"name":"o","email":"o@example.com"}}`)
			body = decoded(rawJSON(body))
		}
		if len(at) > 1 && at[0] == "attachments" {
			body = with(body, field{"attachments"}, `[{"name":"a.txt","content":"`+base64.StdEncoding.EncodeToString([]byte("a"))+`"}]`)
			body = decoded(rawJSON(body))
		}
		if at[0] == "audience" {
			return // instead of recipients; walked by TestHostile
		}
		what := fmt.Sprintf("%s is %s", at, input)
		a := h.call(what, c, "POST", "/sends", strings.NewReader(rawJSON(with(body, at, textValue(text)))))
		var made struct{ ID string }
		if a.status < 300 && json.Unmarshal(a.body, &made) == nil {
			sent = append(sent, planted{what: what, id: made.ID, shown: shownFields[at.String()], text: text})
		}
	}
	for _, at := range append(h.fields(schema, nil, 0), field{"data", "x"}, field{"recipients", "0", "data", "y"}) {
		for input, text := range hostileTexts {
			send(at, input, text)
		}
	}
	// What is registered is shown as well.
	for _, name := range []string{"source", "kind"} {
		for input, text := range hostileTexts {
			registered := fmt.Sprintf(`{"source_name":"Bank","notifications":{"news":{"description":%s}}}`, textValue(text))
			if name == "source" {
				registered = fmt.Sprintf(`{"source_name":%s,"notifications":{"news":{"description":"News"}}}`, textValue(text))
			}
			if a := h.call(name+" is "+input, c, "PUT", "/notifications", strings.NewReader(registered)); a.status < 300 {
				send(field{"subject"}, "usual, the "+name+" is "+input, "usual")
			}
		}
	}
	for _, format := range notify.ChatFormats {
		for input, text := range hostileTexts {
			var made struct{ ID string }
			s.must(1, s.Client("bank-"+format), "POST", "/sends", fmt.Sprintf(
				`{"kind_id":"news","subject":%[1]s,"text":%[1]s,"recipients":[{"user":"u-1"}]}`, textValue(oneLine(text))), &made)
			sent = append(sent, planted{what: format + " gets " + input, id: made.ID, client: "bank-" + format})
		}
	}
	t.Logf("%d of %d were accepted", len(sent), number)
	s.check(sent)
}

// planted is a send that was accepted.
type planted struct {
	what, id string
	shown    bool // on every channel
	text     string
	client   string // the bank if empty
}

// oneLine is a text that may be a subject.
func oneLine(text string) string {
	text = strings.NewReplacer("\r", " ", "\n", " ", "\x00", "").Replace(text)
	return text[:min(len(text), 2000)]
}

// shownFields are the fields that every channel shows.
var shownFields = map[string]bool{"subject": true, "text": true, "data.x": true, "recipients.0.data.y": true}

func decoded(raw string) (v any) {
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		panic(err)
	}
	return v
}

// openBank registers a client with a kind that has all channels, and what they need.
func (s *site) openBank() {
	s.t.Helper()
	for _, id := range notify.Channels(1<<notify.ChannelCount - 1).List() {
		if arrivals[id] == nil {
			s.t.Errorf("the channel %s has no row", id)
		}
	}
	all := textList(notify.Channels(1<<notify.ChannelCount - 1).Names())
	for i, format := range append([]string{""}, notify.ChatFormats...) {
		name, channels := "bank", all
		if i > 0 {
			name, channels = "bank-"+format, `["chat"]`
		}
		c := s.Client(name)
		s.must(1, c, "PUT", "/notifications", `{"source_name":"Bank","notifications":{"news":{"description":"News"}}}`, nil)
		s.must(1, c, "PUT", "/destinations/chat", fmt.Sprintf(`{"url":%q,"format":%q}`, s.plain.URL+"/"+name,
			format), nil)
		if i == 0 {
			s.openOthers(c)
		}
		s.must(1, c, "PUT", "/kinds/news/channels", `{"channels":`+channels+`}`, nil)
	}
}

// openOthers sets what the channels of the bank need beside the chat.
func (s *site) openOthers(c string) {
	s.t.Helper()
	var template struct {
		ID string `json:"template-id"`
	}
	s.must(1, c, "POST", "/templates", `{"name":"look","subject":"{{.Subject}} {{.KindDescription}}",
		"text":"{{.Text}}|{{.Data.x}}|{{.Data.y}}|{{.SourceDescription}}","html":"<p title=\"{{.Data.x}}\">{{.Subject}}{{.HTML}}|{{.Data.x}}|{{.Data.y}}</p><a href=\"https://example.com/?q={{.Data.x}}\" style=\"color: {{.Data.x}}\">x</a>"}`,
		&template)
	s.must(1, c, "PUT", "/clients/bank/notifications/news/template", `{"template":"`+template.ID+`"}`, nil)
	s.must(1, c, "PUT", "/destinations/webhook", fmt.Sprintf(`{"url":"%s/webhook"}`, s.plain.URL), nil)
	s.must(1, c, "PUT", "/providers/texts", fmt.Sprintf(`{"channel":"sms","url":"%s/sms","max_segments":10,
		"headers":{"X-Text":"{{text}}"},"json":{"id":"{{id}}","to":"{{phone}}","subject":"{{subject}}","text":"{{text}}","end":1}}`, s.plain.URL), nil)
	s.must(1, c, "PUT", "/providers/devices", fmt.Sprintf(`{"channel":"push","url":"%s/device?t={{title}}","max_text":20000,
		"headers":{"X-Title":"{{title}}"},"json":{"id":"{{id}}","token":"{{token}}","title":"{{title}}","text":"{{text}}","data":"{{data}}",
		"url":"{{url}}","end":1}}`, s.plain.URL), nil)
	token, _, err := s.Tokens.Make(notify.Owner{ClientID: "bank", UserID: theUser}, time.Hour)
	if err != nil {
		s.t.Fatal(err)
	}
	key, auth := s.browser.keys()
	s.must(1, token, "POST", "/inbox/push_subscriptions", fmt.Sprintf(
		`{"endpoint":"%s/b","keys":{"p256dh":%q,"auth":%q}}`, s.browser.URL, key, auth), nil)
	s.must(1, token, "POST", "/inbox/push_subscriptions", `{"service":"devices","token":"device-1"}`, nil)
}

func textList(list []string) string {
	raw, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// check waits until all is delivered, and looks at what arrived.
func (s *site) check(sent []planted) {
	s.t.Helper()
	type shown struct {
		ID, Channel, Status, Reason string
	}
	messages := map[string][]shown{}
	for _, p := range sent {
		if p.id == "" {
			continue
		}
		testkit.Eventually(s.t, p.what+" is final", func() bool {
			var page struct{ Messages []shown }
			s.must(1, s.Client(cmp.Or(p.client, "bank")), "GET", "/messages?send="+p.id, "", &page)
			messages[p.id] = page.Messages
			return !slices.ContainsFunc(page.Messages, func(m shown) bool { return m.Status == "queued" || m.Status == "retry" })
		})
	}
	texts := map[string]map[string]string{}
	for id, arrived := range arrivals {
		found, problems := arrived(s)
		texts[id.String()] = found
		for i, problem := range problems {
			if i < 10 {
				s.t.Errorf("%s: %s", id, problem)
			}
		}
	}
	for _, p := range sent {
		want := visible(p.text)
		if len(want) > 60 {
			want = want[:60]
		}
		for _, m := range messages[p.id] {
			channel := cmp.Or(m.Channel, notify.Email.String())
			text, arrived := texts[channel][m.ID]
			switch {
			case m.Status != "delivered":
				if m.Reason == "" || !strings.HasPrefix(p.what, "data.push") && !strings.HasPrefix(p.what, "recipients") {
					s.t.Errorf("%s by %s: %s, %s", p.what, m.Channel, m.Status, m.Reason)
				}
			case m.Channel == "chat": // it has no id
			case m.Channel == "inbox" && strings.HasPrefix(p.what, "recipients.0.user"): // it is another user's
			case !arrived:
				s.t.Errorf("%s by %s: it did not arrive", p.what, m.Channel)
			case p.shown && !strings.Contains(visible(text), want):
				s.t.Errorf("%s by %s: %q is shown as %.300q", p.what, m.Channel, p.text, text)
			}
		}
	}
	if text := s.log.text(); text != "" {
		s.t.Errorf("errors were logged:\n%.3000s", text)
	}
	if v := s.sink.Violations(); len(v) > 0 {
		s.t.Errorf("SMTP was violated: %q", v)
	}
}

// visible is a text without what is not seen, and with single spaces.
func visible(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// mailHeaders are those that mail may have, each once.
var mailHeaders = []string{"Auto-Submitted", "Content-Transfer-Encoding", "Content-Type", "Date", "From", "In-Reply-To",
	"List-Id", "List-Unsubscribe", "List-Unsubscribe-Post", "Message-Id", "Mime-Version", "References", "Reply-To",
	"Subject", "To"}

// mailed reads the mail that came.
func mailed(s *site) (map[string]string, []string) {
	texts, problems := map[string]string{}, []string(nil)
	for _, m := range s.sink.Messages() {
		text, err := readMail(m.Data)
		if m.From != "no-reply@example.com" {
			err = fmt.Errorf("it is from %s", m.From)
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("%v in\n%.1500s", err, m.Data))
		}
		texts[m.ID] = text
	}
	return texts, problems
}

func readMail(data string) (string, error) {
	m, err := mail.ReadMessage(strings.NewReader(data))
	if err != nil {
		return "", err
	}
	for name, values := range m.Header {
		if !slices.Contains(mailHeaders, name) && !strings.HasPrefix(name, "X-") || name == "X-Injected" || len(values) != 1 {
			return "", fmt.Errorf("the header %s is %q", name, values)
		}
		for _, v := range values {
			if strings.ContainsFunc(v, unicode.IsControl) {
				return "", fmt.Errorf("the header %s has control characters: %q", name, v)
			}
		}
	}
	for name, want := range map[string]string{"From": "no-reply@example.com", "To": ""} {
		list, err := m.Header.AddressList(name)
		if err != nil || len(list) != 1 || want != "" && list[0].Address != want || list[0].Address == "evil@example.com" {
			return "", fmt.Errorf("%s is %v: %w", name, m.Header[name], err)
		}
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		return "", err
	}
	if strings.ContainsFunc(subject, func(r rune) bool { return r == '\r' || r == '\n' || r == 0 }) {
		return "", fmt.Errorf("the subject is %q", subject)
	}
	text, err := readPart(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Body)
	return subject + "\n" + text, err
}

// readPart returns the texts of a part.
func readPart(kind, encoding string, body io.Reader) (string, error) {
	media, params, err := mime.ParseMediaType(kind)
	if err != nil {
		return "", fmt.Errorf("the type %q: %w", kind, err)
	}
	if strings.HasPrefix(media, "multipart/") {
		all, parts := "", multipart.NewReader(body, params["boundary"])
		for n := 0; ; n++ {
			p, err := parts.NextRawPart()
			if errors.Is(err, io.EOF) && n > 0 {
				return all, nil
			}
			if err != nil {
				return "", err
			}
			text, err := readPart(p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"), p)
			if err != nil {
				return "", err
			}
			all += text + "\n"
		}
	}
	switch strings.ToLower(encoding) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	text := string(raw)
	switch media {
	case "text/html":
		if why := activeHTML(text); why != "" {
			return "", fmt.Errorf("the HTML is active: %s", why)
		}
		return textOfHTML(text), nil
	case "text/calendar":
		for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n ", ""), "\r\n") {
			name, _, ok := strings.Cut(line, ":")
			name, _, _ = strings.Cut(name, ";")
			if line != "" && (!ok || !slices.Contains(calendarNames, name)) {
				return "", fmt.Errorf("the calendar has the line %q", line)
			}
		}
		if strings.Count(text, "BEGIN:VEVENT") != 1 || strings.Count(text, "\r\nATTENDEE") != 1 {
			return "", fmt.Errorf("the calendar is %s", text)
		}
	}
	return text, nil
}

var calendarNames = []string{"BEGIN", "END", "VERSION", "PRODID", "METHOD", "UID", "DTSTAMP", "DTSTART", "DTEND",
	"DURATION", "SUMMARY", "LOCATION", "DESCRIPTION", "ORGANIZER", "ATTENDEE", "SEQUENCE", "STATUS", "CALSCALE", "TZID",
	"TZOFFSETFROM", "TZOFFSETTO", "TZNAME", "RRULE", "RDATE", "TRANSP", "X-WR-CALNAME", "CLASS",
	"PRIORITY", "TRIGGER", "ACTION"}

func textOfHTML(text string) string {
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return ""
	}
	var out strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.TextNode {
			out.WriteString(n.Data)
		}
	}
	return out.String()
}

// posted reads the JSON objects that a receiver got, which have these fields only.
func posted(path string, fields []string) arrival {
	return func(s *site) (map[string]string, []string) { return readObjects(s.plain.calls(path), fields) }
}

func readObjects(calls []called, fields []string) (map[string]string, []string) {
	texts, problems := map[string]string{}, []string(nil)
	for _, call := range calls {
		var body map[string]any
		d := json.NewDecoder(bytes.NewReader(call.body))
		if err := d.Decode(&body); err != nil || d.More() {
			problems = append(problems, fmt.Sprintf("%v in %.500s", err, call.body))
			continue
		}
		for name := range body {
			if !slices.Contains(fields, name) {
				problems = append(problems, fmt.Sprintf("it has the field %q: %.500s", name, call.body))
			}
		}
		for name, values := range call.header {
			if name == "X-Injected" || name == "Bcc" || len(values) != 1 {
				problems = append(problems, fmt.Sprintf("the header %s is %q", name, values))
			}
		}
		// A webhook gets the HTML as mail would; its receiver shows it.
		if text, is := body["html"].(string); is {
			if why := activeHTML(text); why != "" {
				problems = append(problems, why+" in "+text)
			}
		}
		id, _ := body["id"].(string)
		for _, v := range []any{body["subject"], body["title"], body["text"], body["body"]} {
			text, _ := v.(string)
			texts[id] += text + "\n"
		}
	}
	return texts, problems
}

// chatted reads what chats got: it mentions no users, and has no links of its own.
func chatted(s *site) (map[string]string, []string) {
	var problems []string
	for _, path := range []string{"/bank", "/bank-slack", "/bank-teams", "/bank-discord"} {
		calls := s.plain.calls(path)
		if len(calls) == 0 {
			problems = append(problems, path+" got nothing")
		}
		for _, call := range calls {
			if why := loud(path, call.body); why != "" {
				problems = append(problems, fmt.Sprintf("%s: %s in %.500s", path, why, call.body))
			}
		}
	}
	return nil, problems
}

// loud returns what is wrong with a message of a chat.
func loud(path string, raw []byte) string {
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		return err.Error()
	}
	switch path {
	case "/bank-teams": // text runs have no markup
		types := map[string]bool{}
		for at := range strings.SplitSeq(string(raw), `"type":"`) {
			kind, _, _ := strings.Cut(at, `"`)
			types[kind] = true
		}
		for kind := range types {
			known := slices.Contains([]string{"message", "AdaptiveCard", "RichTextBlock", "TextRun"}, kind)
			if !known && !strings.HasPrefix(kind, "{") {
				return "it has a " + kind
			}
		}
	case "/bank-discord":
		if mentions, _ := json.Marshal(body["allowed_mentions"]); string(mentions) != `{"parse":[]}` || len(body) != 2 {
			return "it may mention " + string(mentions)
		}
	default:
		text, _ := body["text"].(string)
		for _, bad := range []string{"<", ">", "@everyone", "@here", "@channel"} {
			if strings.Contains(text, bad) || len(body) != 1 {
				return "it has " + bad
			}
		}
	}
	return ""
}

// kept reads the inbox.
func kept(s *site) (map[string]string, []string) {
	token, _, err := s.Tokens.Make(notify.Owner{ClientID: "bank", UserID: theUser}, time.Hour)
	if err != nil {
		return nil, []string{err.Error()}
	}
	texts := map[string]string{}
	for next := ""; ; {
		var page struct {
			Notifications []struct{ ID, Title, Text string }
			Next          string
		}
		s.must(1, token, "GET", "/inbox/notifications?limit=100"+next, "", &page)
		for _, n := range page.Notifications {
			texts[n.ID] = n.Title + "\n" + n.Text
		}
		if page.Next == "" {
			return texts, nil
		}
		next = "&after=" + page.Next
	}
}

// pushed reads what browsers and devices got.
func pushed(s *site) (map[string]string, []string) {
	payloads, errs := s.browser.received()
	texts, problems := readObjects(payloads, []string{"id", "title", "body", "url", "icon", "tag", "kind_id",
		"created_at"})
	for _, err := range errs {
		problems = append(problems, err.Error())
	}
	for _, call := range payloads {
		if len(call.body) > 4096 {
			problems = append(problems, fmt.Sprintf("it has %d bytes", len(call.body)))
		}
	}
	devices, more := readObjects(s.plain.calls("/device"), []string{"id", "token", "title", "text", "data", "url", "end"})
	for id, text := range devices {
		if texts[id] == "" {
			more = append(more, "a device has what no browser has: "+text)
		}
	}
	return texts, append(problems, more...)
}
