package dsn

import (
	"encoding/base64"
	"errors"
	"net/smtp" //nolint:depguard // an independent client
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

const feedback = `Feedback-Type: abuse
User-Agent: ExampleLoop/1.0
Version: 1
Original-Mail-From: <bounces+t-abc-1@in.ingot.example>
Original-Rcpt-To: <redacted-7f3a@mx.example>
Source-IP: 192.0.2.1
`

// complaint is a report as mail providers write it.
func complaint(replace ...string) string {
	text := `Date: Sun, 15 Nov 2026 01:02:03 +0000 (UTC)
From: <feedback@mx.example>
Subject: FW: Hello
To: bounces@in.ingot.example
MIME-Version: 1.0
Content-Type: multipart/report; report-type=feedback-report;
	boundary="B/mx.example"

--B/mx.example
Content-Type: text/plain; charset=us-ascii

This is an abuse report for a message from 192.0.2.1.

--B/mx.example
Content-Type: message/feedback-report

` + feedback + `
--B/mx.example
Content-Type: message/rfc822
Content-Disposition: inline

From: no-reply@ingot.example
To: redacted-7f3a@mx.example
Message-ID: <` + id + `@ingot.example>
X-Notification-Report: ` + tag + `
Subject: Hello

Hello

--B/mx.example--
`
	return strings.ReplaceAll(strings.NewReplacer(replace...).Replace(text), "\n", "\r\n")
}

func TestParseComplaint(t *testing.T) {
	t.Parallel()
	abuse := Complaint{Type: "abuse", Reporter: "ExampleLoop/1.0"}
	encoded := base64.StdEncoding.EncodeToString([]byte(feedback))
	for name, test := range map[string]struct {
		text string
		tag  string
		want Complaint
	}{
		"usual":        {complaint(), tag, abuse},
		"headers only": {complaint("message/rfc822", "text/rfc822-headers"), tag, abuse},
		"letters":      {complaint("=feedback-report", "=Feedback-Report", ": abuse", ": Abuse"), tag, abuse},
		"encoded": {complaint("message/feedback-report\n", "message/feedback-report\nContent-Transfer-Encoding: base64\n",
			feedback, encoded+"\n"), tag, abuse},
		"not spam": {complaint(": abuse", ": not-spam"), tag, Complaint{Type: "not-spam", Reporter: abuse.Reporter}},
		"no tag":   {complaint("X-Notification-Report:", "X-Other:"), "", abuse},
		"long reporter": {complaint("ExampleLoop/1.0", strings.Repeat("x", 4000)), tag,
			Complaint{Type: "abuse", Reporter: strings.Repeat("x", 400) + "…"}},
		"reporter of two lines": {complaint("ExampleLoop/1.0", "Example\n \tLoop"), tag,
			Complaint{Type: "abuse", Reporter: "Example Loop"}},
		"a second report": {complaint("--B/mx.example\nContent-Type: message/rfc822",
			"--B/mx.example\nContent-Type: message/feedback-report\n\nFeedback-Type: other\n\n--B/mx.example\n"+
				"Content-Type: message/rfc822"), tag, abuse},
		"with a delivery status": {complaint("text/plain; charset=us-ascii\n", "message/delivery-status\n\n"+
			"Reporting-MTA: dns; x\n\nFinal-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.1.1\n"), tag, abuse},
	} {
		c, err := parse(strings.NewReader(test.text))
		if err != nil || c.tag != test.tag || c.complaint == nil || *c.complaint != test.want || len(c.bounces) > 0 {
			t.Errorf("%s: %+v with %+v, %v, want tag %q and %+v", name, c, c.complaint, err, test.tag, test.want)
		}
	}
	for name, text := range map[string]string{
		"no type":         complaint("Feedback-Type", "X-Type"),
		"an empty type":   complaint("Feedback-Type: abuse", "Feedback-Type:"),
		"two types":       complaint("Version: 1", "Feedback-Type: not-spam"),
		"a strange type":  complaint(": abuse", ": <script>"),
		"a long type":     complaint(": abuse", ": "+strings.Repeat("a", 300)),
		"no report part":  complaint("message/feedback-report", "text/plain"),
		"an empty report": complaint(feedback, ""),
		"no header":       complaint(feedback, "\x00\xff\n:\n"),
		"broken base64": complaint("message/feedback-report\n",
			"message/feedback-report\nContent-Transfer-Encoding: base64\n"),
		"no boundary":       complaint(`boundary="B/mx.example"`, "x=y"),
		"an empty boundary": complaint(`"B/mx.example"`, `""`),
		"other boundary":    complaint(`"B/mx.example"`, `"C"`),
		"a bounce inside":   complaint("=feedback-report", "=delivery-status"),
		"other report":      complaint("=feedback-report", "=disposition-notification"),
		"no multipart":      complaint("multipart/report", "multipart/mixed"),
		"nested": complaint("Content-Type: message/feedback-report", `Content-Type: multipart/report; boundary="B"`+
			"\n\n--B\nContent-Type: message/feedback-report"),
		"behind too many parts": complaint("--B/mx.example\nContent-Type: text/plain; charset=us-ascii\n",
			strings.Repeat("--B/mx.example\nContent-Type: text/plain\n\nx\n", maxParts)),
		"cut off": strings.SplitAfter(complaint(), "message/feedback-report")[0],
	} {
		if c, err := parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v with %+v, want an error", name, c, c.complaint)
		}
	}
	whole := complaint()
	for i := range whole { // wherever it ends, it is read or refused
		if c, err := parse(strings.NewReader(whole[:i])); err == nil && c.complaint == nil {
			t.Errorf("cut off at byte %d: %+v", i, c)
		}
	}
}

func TestComplaints(t *testing.T) {
	t.Parallel()
	hear := &told{}
	registry := prometheus.NewRegistry()
	l := listen(t, hear, func(o *Options) { o.Registry = registry })
	const plainTo = "bounces@in.ingot.example"
	for _, test := range []struct {
		name, to, text, want string
		id                   string // of the complaint; empty: none
	}{
		{"by the envelope", plainTo, complaint(), "", "abc-1"},
		{"by its address", "bounces+t-abc-2@in.ingot.example", complaint(), "", "abc-2"},
		{"by the header", plainTo, complaint("Original-Mail-From", "X"), "", id},
		{"by the header, with another envelope", plainTo, complaint("bounces+", "news+"), "", id},
		{"by the return path of the message", plainTo, complaint("Original-Mail-From", "X", "From: no-reply",
			"Return-Path: <bounces+t-abc-3@in.ingot.example>\nFrom: no-reply"), "", "abc-3"},
		{"by the Message-ID only", plainTo, complaint("Original-Mail-From", "X", "X-Notification-Report", "Y"), "", ""},
		{"other domain", plainTo, complaint("X-Notification-Report", "Y", "abc-1@in.", "abc-1@"), "", ""},
		{"wrong tags", plainTo, complaint(": t-", ": ", "+t-", "+x-"), "", ""},
		{"the plain envelope", plainTo, complaint("X-Notification-Report", "Y", "+t-abc-1", ""), "", ""},
		{"a bounce to the plain address", plainTo, report(), "", ""},
		{"no type", plainTo, complaint("Feedback-Type", "X"), "550", ""},
		{"other address", "ann@in.ingot.example", complaint(), "550", ""},
	} {
		err := smtp.SendMail(l.Addr(), nil, "feedback@mx.example", []string{test.to}, []byte(test.text))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v, want %q", test.name, err, test.want)
		}
		hear.mu.Lock()
		got := hear.complaints
		hear.complaints = nil
		hear.mu.Unlock()
		if len(hear.take()) > 0 || (test.id == "") != (len(got) == 0) || len(got) > 1 ||
			len(got) == 1 && got[0].MessageID != test.id {
			t.Errorf("%s: complaints are %+v, want one of %q or none without an id", test.name, got, test.id)
		}
	}
	hear.err = errors.New("the database is away")
	if err := smtp.SendMail(l.Addr(), nil, "", []string{"bounces@in.ingot.example"}, []byte(complaint())); err == nil ||
		!strings.Contains(err.Error(), "451") || strings.Contains(err.Error(), "database") {
		t.Errorf("error is %v, want 451 without the cause", err)
	}
	// The callback says that two of them count.
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 ||
		families[0].GetMetric()[0].GetLabel()[0].GetValue() != "complaint" ||
		families[0].GetMetric()[0].GetCounter().GetValue() != 2 {
		t.Errorf("metrics are %v, %v, want two complaints", families, err)
	}
}
