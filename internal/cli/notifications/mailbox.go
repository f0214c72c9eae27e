package notifications

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// notifications mailbox

type mailboxFlags struct {
	notifyFlags
	Search string `long:"search" value-name:"TEXT" description:"Only mail with this text in its recipient, sender or subject"`
	Limit  int    `long:"limit" value-name:"N" default:"50" description:"At most so many, the newest first, up to 1000"`
	Read   int64  `long:"read" value-name:"NUMBER" description:"Show the mail with this number"`
	Clear  bool   `long:"clear" description:"Remove all mail, for everyone"`
	Force  bool   `short:"f" description:"With --clear: do not ask for confirmation"`
}

type mailRow struct {
	Number   int64     `json:"number"`
	From     string    `json:"from"`
	To       string    `json:"to"`
	Subject  string    `json:"subject"`
	Received time.Time `json:"received"`
}

// mail is one with its content. JSON output is what the service sent.
type mail struct {
	raw json.RawMessage
	mailRow
	Text string `json:"text"`
	HTML string `json:"html"`
}

// MarshalJSON returns all of it.
func (m *mail) MarshalJSON() ([]byte, error) { return m.raw, nil }

// Show prints the text, or the HTML of mail without one.
func (m *mail) Show(p *term.Printer) {
	p.Pairs([2]string{"from", m.From}, [2]string{"to", m.To}, [2]string{"subject", m.Subject},
		[2]string{"received", m.Received.UTC().Format(time.RFC3339)})
	p.Println("")
	if m.Text != "" || m.HTML == "" {
		p.Println(m.Text)
	} else {
		p.Println(m.HTML)
	}
}

func readMailbox(ctx context.Context, s *core.Session, _ core.Words, f *mailboxFlags) (core.Result, error) {
	f.administers()
	const path = "/mailbox/messages"
	switch {
	case f.Clear && (f.Read != 0 || f.Search != ""):
		return nil, core.UsageError("--clear cannot be used with --read or --search")
	case f.Clear:
		if err := s.Confirm(ctx, f.Force, "Really remove all mail from the mailbox"); err != nil {
			return nil, err
		}
		s.Say("Clearing the mailbox...")
		if err := f.call(ctx, s, http.MethodDelete, path, nil, nil); err != nil {
			return nil, err
		}
		s.OK()
		return s.JSONOnly(&core.Listing[mailRow]{Key: "messages"}), nil
	case f.Read != 0:
		number := strconv.FormatInt(f.Read, 10)
		s.Say("Getting mail %s...", s.Out.Bold(number))
		m := &mail{}
		if err := f.call(ctx, s, http.MethodGet, path+"/"+number, nil, &m.raw); err != nil {
			return nil, err
		}
		type content mail // without the methods
		return m, json.Unmarshal(m.raw, (*content)(m))
	}
	s.Say("Getting mail...")
	var found struct {
		Messages []mailRow `json:"messages"`
	}
	q := url.Values{"limit": {strconv.Itoa(f.Limit)}}
	if f.Search != "" {
		q.Set("q", f.Search)
	}
	if err := f.call(ctx, s, http.MethodGet, path+"?"+q.Encode(), nil, &found); err != nil {
		return nil, err
	}
	return &core.Listing[mailRow]{Key: "messages", None: "No mail found.", Paint: core.Plain, Rows: found.Messages,
		Heading: []string{"number", "received", "to", "from", "subject"},
		Cells: func(m mailRow) []string {
			return []string{strconv.FormatInt(m.Number, 10), m.Received.UTC().Format(time.RFC3339), m.To, m.From, m.Subject}
		}}, nil
}
