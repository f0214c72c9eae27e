package httpext_test

import (
	"fmt"
	"strings"
	"testing"

	"ingot/internal/notify"
)

const gateway = `"channel":"sms","url":"https://sms.example.com/{{secret \"account\"}}","headers":{"Authorization":` +
	`"Bearer {{secret \"key\"}}"},"json":{"to":"{{phone}}","text":"{{text}}"}`

// TestProviders declares, shows and deletes providers. The values of their secrets are never shown.
func TestProviders(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 2; version++ {
		w, _ := world(t)
		c, other, admin := w.Client("shop", "notifications.manage"), w.Client("other", "notifications.manage"),
			w.Client("boss", "notifications.admin")
		secrets := `,"secrets":{"account":"AC0001","key":"s3cret-key"}`
		for _, step := range []struct {
			method, path, body, bearer string
			status                     int
			want                       string
		}{
			{"GET", "", "", c, 200, `{"providers":[]}`},
			{"PUT", "/twilio", "{" + gateway + "}", c, 422, `the secret \"account\" is used, but has no value`},
			{"PUT", "/twilio", "{" + gateway + secrets + "}", c, 200, `"secrets":["account","key"]`},
			{"PUT", "/twilio", "{" + gateway + `,"weight":5,"secrets":{"key":"s3cret-other"}}`, c, 200, `"weight":5`},
			{"PUT", "/twilio", "{" + gateway + "}", c, 200, `"weight":1`},
			{"GET", "/twilio", "", c, 200, `"url":"https://sms.example.com/{{secret \"account\"}}"`},
			{"GET", "", "", w.Client("shop", "notifications.write"), 200, `"name":"twilio"`},
			{"GET", "", "", other, 200, `{"providers":[]}`},
			{"GET", "/twilio", "", other, 404, "could not be found"},
			{"DELETE", "/twilio", "", other, 404, "could not be found"},
			{"GET", "", "", w.Client("shop", "emails.write"), 403, ""},
			{"PUT", "/twilio", "{" + gateway + secrets + "}", w.Client("shop", "emails.write"), 403, ""},

			{"PUT", "/shared?shared=true", "{" + gateway + secrets + "}", c, 403, "notifications.admin"},
			{"PUT", "/shared?shared=true", "{" + gateway + secrets + "}", admin, 200, `"shared":true`},
			{"GET", "/shared?shared=true", "", c, 403, "notifications.admin"},
			{"GET", "/shared?shared=true", "", admin, 200, `"shared":true`},
			{"GET", "", "", other, 200, `{"providers":[{"channel":"sms","name":"shared","shared":true}]}`},
			{"DELETE", "/shared?shared=true", "", c, 403, "notifications.admin"},
			{"DELETE", "/shared?shared=1", "", admin, 422, "true or false"},
			{"GET", "?all=1", "", c, 400, "Unknown query parameter"},
			{"DELETE", "/shared?shared=true", "", admin, 204, ""},
			{"DELETE", "/shared?shared=true", "", admin, 404, "could not be found"},

			{"PUT", "/A", "{" + gateway + secrets + "}", c, 422, "the name of a provider"},
			{"PUT", "/p", `{"channel":"email","url":"https://example.com"}`, c, 422, `\"channel\" must be sms`},
			{"PUT", "/p", `{"url":"https://example.com"}`, c, 422, `\"channel\" must be sms`},
			{"PUT", "/p", `{"channel":"sms","url":"http://example.com"}`, c, 422, "https://"},
			{"PUT", "/p", `{"channel":"sms","url":"https://example.com","secrets":{"x":"s3cret"}}`, c, 422, `is not used`},
			{"PUT", "/p", `{"channel":"sms","url":"https://example.com","success":{"status":[99]}}`, c, 422, `like 200`},
			{"PUT", "/p", `{"channel":"sms","url":"https://example.com","method":7}`, c, 422, "method"},
			{"PUT", "/p", `{"channel":"sms","url":"https://example.com","code":"x"}`, c, 422, "code"},
			{"PUT", "/p", `{`, c, 400, ""},
			{"DELETE", "/twilio", "", c, 204, ""},
			{"DELETE", "/twilio", "", c, 404, "could not be found"},
		} {
			a := w.Expect(version, step.bearer, step.method, "/providers"+step.path, step.body, step.status, "")
			if !strings.Contains(a.Body, step.want) || strings.Contains(a.Body, "s3cret") || strings.Contains(a.Body, "AC0001") {
				t.Errorf("%s %s %.100s: %s, want %s", step.method, step.path, step.body, a.Body, step.want)
			}
			if step.want == `"weight":5` {
				p, err := w.Store.Provider(t.Context(), "shop", "twilio")
				if err != nil || p.Secrets["key"] != "s3cret-other" || p.Secrets["account"] != "AC0001" {
					t.Errorf("%+v is stored, %v", p, err)
				}
			}
		}
		for i := range notify.MaxProviders + 1 {
			status := 200
			if i == notify.MaxProviders {
				status = 422
			}
			w.Expect(version, c, "PUT", fmt.Sprintf("/providers/p%d", i), "{"+gateway+secrets+"}", status, "")
		}
	}
}

// TestTexts sends by a kind that has the channel sms, which needs a provider.
func TestTexts(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	a := w.Expect(1, c, "PUT", "/kinds/news/channels", `{"channels":["email","sms"]}`, 422, "")
	if !strings.Contains(a.Body, "PUT /providers/NAME") {
		t.Errorf("without a provider: %s", a.Body)
	}
	w.Expect(1, c, "PUT", "/providers/gateway", `{"channel":"sms","url":"https://example.com/"}`, 200, "")
	w.Expect(1, c, "PUT", "/kinds/news/channels", `{"channels":["email","sms"]}`, 200, "")
	for phone, status := range map[string]int{"+4915112345678": 202, "015112345678": 422, "+49 151 1234": 422,
		"+0123456789": 422,
		"x":           422, "+1234567890123456": 422} {
		a := w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","text":"t","recipients":[{"email":"a@example.com","phone":"`+
			phone+`"},{"user":"u-1"}]}`, status, "")
		if status == 422 && !strings.Contains(a.Body, "country code") {
			t.Errorf("%s: %s", phone, a.Body)
		}
	}
	a = w.Expect(1, c, "GET", "/recipient_data?email=a@example.com", "", 200, "")
	if !strings.Contains(a.Body, `"phone":"+4915112345678"`) {
		t.Errorf("what is stored: %s", a.Body)
	}
	w.Expect(1, c, "POST", "/erasures", `{"email":"a@example.com"}`, 200, "")
	a = w.Expect(1, c, "GET", "/recipient_data?email=a@example.com", "", 200, "")
	if strings.Contains(a.Body, "4915112345678") {
		t.Errorf("after the erasure: %s", a.Body)
	}
}

// TestPhoneOnly sends to a recipient who has only a phone number, and finds and erases them by it.
func TestPhoneOnly(t *testing.T) {
	t.Parallel()
	const number, other = "+4915112345678", "+4915112345679"
	for version := 1; version <= 2; version++ {
		w, c := world(t)
		to := func(kind, more string) string {
			return `{"kind_id":"` + kind + `","text":"t","recipients":[{"phone":"` + number + `"` + more + `},{"phone":"` + other +
				`"},{"phone":"` + number + `"}]}`
		}
		a := w.Expect(version, c, "POST", "/sends", to("news", ""), 422, "")
		if !strings.Contains(a.Message(), "recipient 1 has only a phone number") {
			t.Errorf("without the channel: %s", a.Body)
		}
		a = w.Expect(version, c, "PUT", "/recurring_sends/weekly", `{"cron":"0 9 * * mon","zone":"UTC","send":`+
			to("news", "")+`}`, 422, "")
		if !strings.Contains(a.Message(), "recipient 1 has only a phone number") {
			t.Errorf("again and again without the channel: %s", a.Body)
		}
		w.Expect(version, c, "PUT", "/providers/gateway", `{"channel":"sms","url":"https://example.com/"}`, 200, "")
		w.Expect(version, c, "PUT", "/kinds/news/channels", `{"channels":["email","sms"]}`, 200, "")
		for _, wrong := range []string{`{}`, `{"phone":""}`, `{"phone":"0151"}`, `{"phone":"+49 151"}`,
			`{"phone":"+4915112345678\n"}`, `{"email":"` + number + `"}`} {
			w.Expect(version, c, "POST", "/sends", `{"kind_id":"news","text":"t","recipients":[`+wrong+`]}`, 422, "")
		}
		w.Expect(version, c, "POST", "/sends", to("news", `,"data":{"name":"Dora"}`), 202, "")
		w.Expect(version, c, "PUT", "/recurring_sends/weekly", `{"cron":"0 9 * * mon","zone":"UTC","send":`+to("news", "")+`}`,
			201, "")
		a = w.Expect(version, c, "GET", "/recurring_sends/weekly", "", 200, "")
		if !strings.Contains(a.Body, `{"phone":"`+number+`"}`) {
			t.Errorf("the recurring send is %s", a.Body)
		}
		a = w.Expect(version, c, "GET", "/messages", "", 200, "")
		if strings.Count(a.Body, `"phone":"`) != 2 || !strings.Contains(a.Body, `"channel":"sms"`) ||
			strings.Contains(a.Body, `"email"`) {
			t.Errorf("the messages are %s", a.Body)
		}
		for query, status := range map[string]int{"phone=%2B4915112345678&user_id=u": 422, "phone=0151": 422, "": 422,
			"phone=dora@example.org": 422} {
			w.Expect(version, c, "GET", "/recipient_data?"+query, "", status, "")
		}
		const path = "/recipient_data?phone=%2B4915112345678"
		a = w.Expect(version, c, "GET", path, "", 200, "")
		for _, want := range []string{`"name":"Dora"`, `"recurring_send":"weekly"`, `"phone":"` + number + `"`} {
			if !strings.Contains(a.Body, want) || strings.Contains(a.Body, other) {
				t.Errorf("what is stored: %s, want %s", a.Body, want)
			}
		}
		w.Expect(version, c, "POST", "/erasures", `{"phone":"`+number+`","email":"a@example.com"}`, 422, "")
		w.Expect(version, c, "POST", "/erasures", `{"phone":"`+number+`"}`, 200, "")
		if a = w.Expect(version, c, "GET", path, "", 200, ""); strings.Contains(a.Body, number) ||
			strings.Contains(a.Body, "Dora") {
			t.Errorf("after the erasure: %s", a.Body)
		}
		a = w.Expect(version, c, "GET", "/messages", "", 200, "")
		if strings.Contains(a.Body, number) || !strings.Contains(a.Body, other) {
			t.Errorf("then the messages are %s", a.Body)
		}
	}
}
