package httpext_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingot/internal/notify"
	"ingot/internal/notify/apitest"
)

// TestAdministrators checks that what other clients sent is for administrators only.
func TestAdministrators(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	w.Expect(1, shop, "POST", "/users/u-1", `{"kind_id":"news","subject":"Sale","text":"t"}`, 200, "")
	id := w.IDs.Message(fail(t, w))
	admin, sender := w.User("boss", "notifications.admin"), w.Client("other", "notifications.write", "emails.write")

	var sends struct {
		Sends []struct {
			ID       string
			ClientID string `json:"client_id"`
		}
	}
	w.Expect(1, admin, "GET", "/sends?client_id=*", "", 200, "").Into(&sends)
	if len(sends.Sends) != 1 || sends.Sends[0].ClientID != "shop" {
		t.Fatalf("all sends: %+v", sends)
	}
	send := sends.Sends[0].ID
	for _, path := range []string{"/sends", "/sends?client_id=other", "/messages", "/sends?client_id=cf"} {
		if a := w.Expect(1, admin, "GET", path, "", 200, ""); strings.Contains(a.Body, send) {
			t.Errorf("%s shows what another client sent: %s", path, a.Body)
		}
	}
	for _, path := range []string{"/sends/" + send, "/messages?client_id=*", "/messages?client_id=shop&status=failed",
		"/messages?send=" + send, "/messages?id=" + id} {
		if a := w.Expect(1, admin, "GET", path, "", 200, ""); !strings.Contains(a.Body, send) {
			t.Errorf("%s: %s", path, a.Body)
		}
	}
	for path, status := range map[string]int{
		"/sends?client_id=*": 403, "/sends?client_id=shop": 403, "/messages?client_id=*": 403, "/sends/" + send: 404,
		"/messages?send=" + send: 404, "/messages?id=" + id: 404,
		"/messages?id=none": 404,
	} {
		w.Expect(1, sender, "GET", path, "", status, "")
	}
	w.Expect(1, sender, "POST", "/messages/"+id+"/replay", "", 404, "")
	w.Expect(1, admin, "POST", "/messages/"+id+"/replay", "", 202, "")
}

func TestAudience(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	people := w.Directory.People(30)
	w.Directory.Members["space-1"] = people[:3]
	for query, want := range map[string]string{
		"type=everyone":                 `"recipients":30`,
		"type=space&id=space-1":         `"recipients":3`,
		"type=user&id=user-00001":       `"recipients":1`,
		"type=email&id=ann@example.com": `"recipients":1`,
	} {
		if a := w.Expect(1, c, "GET", "/audience?"+query, "", 200, ""); !strings.Contains(a.Body, want) ||
			!strings.Contains(a.Body, `"more":false`) {
			t.Errorf("%s: %s", query, a.Body)
		}
	}
	for query, status := range map[string]int{
		"": 400, "type=space": 400, "type=all": 400, "type=space&id=x": 404, "type=user&id=x": 404,
		"type=scope&id=openid": 406, "type=email&id=x": 422, "typ=everyone": 400,
	} {
		w.Expect(1, c, "GET", "/audience?"+query, "", status, "")
	}
}

func TestStatistics(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	w.Directory.Members["space-1"] = w.Directory.People(3)
	w.Expect(1, c, "POST", "/spaces/space-1", `{"kind_id":"news","text":"t"}`, 200, "")
	w.Expect(1, c, "POST", "/users/u-1", `{"kind_id":"news","text":"t"}`, 200, "")
	var got struct {
		Days  []string
		Kinds []struct {
			KindID   string `json:"kind_id"`
			Sends    []int
			Messages []int
		}
	}
	w.Expect(1, c, "GET", "/statistics?days=2", "", 200, "").Into(&got)
	if len(got.Days) != 2 || got.Days[1] != time.Now().UTC().Format(time.DateOnly) || len(got.Kinds) != 1 {
		t.Fatalf("statistics: %+v", got)
	}
	if k := got.Kinds[0]; k.KindID != "news" || k.Sends[0]+k.Sends[1] != 2 || k.Messages[0]+k.Messages[1] != 4 {
		t.Errorf("news: %+v", k)
	}
	w.Expect(1, c, "GET", "/statistics?days=40", "", 400, "")
}

func TestCheckAndVariables(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	var got struct {
		Problems []struct {
			Part         string
			Line, Column int
			Message      string
		}
	}
	w.Expect(1, c, "POST", "/templates/check",
		`{"subject":"{{.Subject","text":"ok {{.Text}}","html":"<p>\n  {{.Nope}}</p>"}`, 200, "").Into(&got)
	if len(got.Problems) != 2 || got.Problems[0].Part != "subject" || got.Problems[1].Part != "html" ||
		got.Problems[1].Line != 2 || !strings.Contains(got.Problems[1].Message, ".Nope") {
		t.Errorf("problems: %+v", got)
	}
	if a := w.Expect(1, c, "POST", "/templates/check", `{"subject":"{{.Subject}}","text":"{{.Text}}"}`, 200,
		""); !strings.Contains(a.Body, `"problems":[]`) {
		t.Errorf("a good template: %s", a.Body)
	}
	if a := w.Expect(1, c, "GET", "/template_variables", "", 200,
		""); !strings.Contains(a.Body, `{"name":"UnsubscribeURL","description":"`) {
		t.Errorf("variables: %s", a.Body)
	}
}

func TestMailbox(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	out := []notify.Outgoing{{ID: "m-1", To: "ann@example.com", Body: &notify.Body{Subject: "Hello", Text: "the text",
		HTML: "<p>the html</p>"}}}
	w.Mailbox.Deliver(t.Context(), out, func(_ int, r notify.Result) {
		if r.Verdict != notify.Accepted {
			t.Fatalf("kept: %+v", r)
		}
	})
	for query, want := range map[string]string{"q=HELL": `"total":1`, "q=nobody": `"total":0`, "to=ann": `"total":1`} {
		if a := w.Expect(1, c, "GET", "/mailbox/messages?"+query, "", 200, ""); !strings.Contains(a.Body, want) {
			t.Errorf("%s: %s", query, a.Body)
		}
	}
	if a := w.Expect(1, c, "GET", "/mailbox/messages/1", "", 200, ""); !strings.Contains(a.Body, "the text") ||
		!strings.Contains(a.Body, "the html") {
		t.Errorf("a mail: %s", a.Body)
	}
	if a := w.Expect(1, c, "GET", "/mailbox/messages/1/source", "", 200, ""); !strings.Contains(a.Body, "Subject: Hello") {
		t.Errorf("its source: %s", a.Body)
	}
	w.Expect(1, c, "GET", "/mailbox/messages/7", "", 404, "")
	w.Expect(1, w.User("u", "notifications.write", "notifications.manage"), "GET", "/mailbox/messages", "", 403, "")
	w.Expect(1, c, "DELETE", "/mailbox/messages", "", 204, "")
	w.Expect(1, c, "GET", "/mailbox/messages/1", "", 404, "")
}

// TestTests checks that tests are sent to the caller only.
func TestTests(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	w.Directory.Users["boss"] = "boss@example.com"
	boss := w.User("boss", apitest.All...)
	var sent []struct{ Recipient string }
	w.Expect(1, boss, "POST", "/templates/default/test", `{"subject":"Look"}`, 200, "").Into(&sent)
	if len(sent) != 1 || sent[0].Recipient != "boss@example.com" {
		t.Errorf("a test of a template: %+v", sent)
	}
	w.Expect(1, boss, "POST", "/clients/shop/notifications/fire/test", "", 200, "").Into(&sent)
	if len(sent) != 1 || sent[0].Recipient != "boss" {
		t.Errorf("a test of a kind: %+v", sent)
	}
	w.Expect(1, boss, "POST", "/templates/none/test", "", 404, "")
	w.Expect(1, boss, "POST", "/clients/shop/notifications/none/test", "", 404, "")
	w.Expect(1, w.Client("shop"), "POST", "/templates/default/test", "", 422, "Missing user_id from token claims.")
	w.Expect(1, w.User("boss", "notifications.admin"), "POST", "/clients/shop/notifications/fire/test", "", 422, "")
	var sends struct {
		Sends []struct {
			ClientID string `json:"client_id"`
		}
	}
	w.Expect(1, boss, "GET", "/sends?client_id=shop", "", 200, "").Into(&sends)
	if len(sends.Sends) != 1 {
		t.Errorf("sends of the shop: %+v", sends)
	}
}

// TestSenderDomain reads what receivers find when they check mail.
func TestSenderDomain(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	w.Domain = notify.DomainReport{Domain: "example.com", Findings: []notify.DomainFinding{
		{Check: "mx", Status: notify.DomainOK, Message: "answers go to mx.example.com"},
		{Check: "spf", Status: notify.DomainProblem, Message: "no SPF record",
			Record: &notify.DNSRecord{Name: "example.com", Type: "TXT", Value: "v=spf1 mx -all"}},
	}}
	for _, version := range []int{1, 2} {
		var got notify.DomainReport
		w.Expect(version, w.Client("c", "notifications.manage"), "GET", "/sender_domain", "", 200, "").Into(&got)
		if diff := cmp.Diff(w.Domain, got); diff != "" {
			t.Error(diff)
		}
		w.Expect(version, w.Client("c", "notifications.write"), "GET", "/sender_domain", "", 403, "")
		w.Expect(version, w.Client("c", "notifications.admin"), "GET", "/sender_domain?domain=other", "", 400, "")
	}
}

// TestMailState reads what the server knows of mail servers and receiving domains.
func TestMailState(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	until := time.Unix(1_900_000_000, 0).UTC()
	w.Mail = notify.MailState{
		Routes: []notify.MailRoute{{Name: "main", Server: "mail.example.com:25", Weight: 3, State: "open", Failures: 5,
			Reason: "timeout", Until: &until, Delivered: 7}},
		Domains: []notify.MailDomain{{Domain: "slow.example", Slow: true, AnswerMS: 4200, Rate: 1.5, Sending: 2,
			Connections: 6}},
		WarmUp:    &notify.MailWarmUp{First: 50, Growth: 1.5, Days: 30},
		Postponed: notify.MailPostponed{Rate: 1, Slow: 2, WarmUp: 3, Busy: 4},
	}
	for _, version := range []int{1, 2} {
		var got notify.MailState
		w.Expect(version, w.Client("c", "notifications.admin"), "GET", "/mail_state", "", 200, "").Into(&got)
		if diff := cmp.Diff(w.Mail, got); diff != "" {
			t.Error(diff)
		}
		w.Expect(version, w.Client("c", "notifications.write", "notifications.manage"), "GET", "/mail_state", "", 403, "")
		w.Expect(version, w.Client("c", "notifications.admin"), "GET", "/mail_state?domain=x", "", 400, "")
	}
}
