package httpext_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/apitest"
)

// storing are requests of a client that store something, each until it has too much. # is another number
// each time, $ is a long text.
var storing = map[int]map[string]string{
	1: {
		"PUT /notifications":                          `{"source_name":"S","notifications":{"k#":{"description":"$"},"l#":{"description":"$"},"m#":{"description":"$"}}}`,
		"PUT /registration":                           `{"source_description":"S","kinds":[{"id":"k#","description":"$"},{"id":"l#","description":"$"},{"id":"m#","description":"$"}]}`,
		"PUT /clients/{client}/notifications/{kind}":  `{"description":"$$$","template":"default","critical":false}`,
		"POST /templates":                             `{"name":"t","html":"$"}`,
		"PUT /templates/{template}":                   `{"name":"t","html":"$$$"}`,
		"POST /users/{id}":                            `{"kind_id":"k","text":"$"}`,
		"POST /spaces/{id}":                           `{"kind_id":"k","text":"$"}`,
		"POST /organizations/{id}":                    `{"kind_id":"k","text":"$"}`,
		"POST /everyone":                              `{"kind_id":"k","html":"$"}`,
		"POST /uaa_scopes/{id}":                       `{"kind_id":"k","text":"$"}`,
		"POST /emails":                                `{"kind_id":"k","to":"a@example.com","text":"$"}`,
		"POST /sends":                                 `{"kind_id":"k","recipients":[{"user":"u","data":{"t":"$"}}]}`,
		"PUT /templates/{template}/variants/{locale}": `{"text":"$$$"}`,
		"PUT /partials/{partial}":                     `{"text":"$$$"}`,
		"POST /topics/{topic}/sends":                  `{"kind_id":"k","text":"$"}`,
		"POST /attachments":                           `# $`,
		"PUT /kinds/{kind}/schema":                    `{"title":"$$$"}`,
		"PUT /recurring_sends/{name}":                 `{"cron":"@daily","send":{"kind_id":"k","text":"$$$","audience":{"type":"user","id":"u"}}}`,
	},
	2: {
		"POST /senders":                               `{"name":"#$"}`,
		"PUT /senders/{sender}":                       `{"name":"$$$"}`,
		"POST /senders/{sender}/campaign_types":       `{"name":"n#","description":"$"}`,
		"PUT /campaign_types/{type}":                  `{"description":"$$$"}`,
		"POST /templates":                             `{"name":"t","text":"$"}`,
		"PUT /templates/{template}":                   `{"text":"$$$"}`,
		"POST /senders/{sender}/campaigns":            `{"campaign_type_id":"{type}","subject":"s","text":"$","send_to":{"emails":["a@example.com"]}}`,
		"PUT /templates/{template}/variants/{locale}": `{"text":"$$$"}`,
		"PUT /partials/{partial}":                     `{"text":"$$$"}`,
		"POST /topics/{topic}/sends":                  `{"kind_id":"k","text":"$"}`,
		"POST /attachments":                           `# $`,
		"PUT /kinds/{kind}/schema":                    `{"title":"$$$"}`,
		"PUT /recurring_sends/{name}":                 `{"cron":"@daily","send":{"kind_id":"k","text":"$$$","audience":{"type":"user","id":"u"}}}`,
		"POST /sends":                                 `{"kind_id":"k","data":{"t":"$"},"audience":{"type":"user","id":"u"}}`,
	},
}

// bounded are the other requests that change something, and why they need no limit of bytes.
var bounded = map[string]string{
	"PUT /default_template":                               "of administrators, and one",
	"PUT /templates/default":                              "of administrators, and one",
	"PUT /clients/{client}/template":                      "an id of a template that exists",
	"PUT /clients/{client}/notifications/{kind}/template": "an id of a template that exists",
	"PATCH /user_preferences":                             "of users, for kinds that exist",
	"PATCH /user_preferences/{user}":                      "of users, for kinds that exist",
	"PATCH /preferences":                                  "of users, for kinds and topics that exist",
	"PATCH /preferences/{user}":                           "of administrators, for kinds and topics that exist",
	"PUT /campaign_types/{type}/unsubscribers/{user}":     "of users, for types that exist",
	"POST /templates/{template}/test":                     "a send with the content of the template; counted as any other",
	"POST /clients/{client}/notifications/{kind}/test":    "of administrators",
	"POST /messages/{message}/replay":                     "stores nothing new",
	"POST /templates/preview":                             "stores nothing",
	"POST /templates/{template}/rollback":                 "a version that is stored; 20 are, counted as definitions",
	"POST /templates/check":                               "stores nothing",
	"POST /webhooks":                                      "ten",
	"POST /erasures":                                      "the latest 10,000 of a client",
	"PUT /suppressions/{email}":                           "of administrators",
	"POST /unsubscribe/{token}":                           "of recipients, for kinds that exist",
	"PUT /kinds/{kind}/channels":                          "a set of channels",
	"PUT /kinds/{kind}/workflow":                          "16 KiB for a kind, which counts as its definition",
	"PUT /kinds/{kind}/throttle":                          "a rule of 300 bytes, counted as a definition",
	"PUT /kinds/{kind}/retention":                         "a number",
	"PUT /kinds/{kind}/tracking":                          "a number",
	"PUT /kinds/{kind}/digest":                            "a rule of 300 bytes, counted as a definition",
	"PUT /campaign_types/{type}/channels":                 "a set of channels",
	"PUT /destinations/{channel}":                         "one for each channel, of 2,200 bytes; counted as definitions",
	"PUT /providers/{provider}":                           "20 of 32 KiB and 20 secrets; counted as definitions",
	"POST /recurring_sends/{name}/pause":                  "stores nothing new",
	"POST /recurring_sends/{name}/resume":                 "stores nothing new",
	"POST /inbox/tokens":                                  "stores nothing",
	"POST /inbox/push_subscriptions":                      "20 of a user, each counted as 4 KiB: see TestPushIsBounded",
	"POST /push_subscriptions":                            "20 of a user, each counted as 4 KiB: see TestPushIsBounded",
	"PATCH /inbox/notifications/{notification}":           "of users, for notifications that exist",
	"POST /inbox/read_all":                                "of users, for notifications that exist",
	"PUT /topics/{topic}":                                 "200 of 2,100 bytes; counted as definitions",
	"POST /topics/{topic}/subscribers":                    "10,000,000 of a client: see TestTopicsFull",
	"PUT /inbox/origins":                                  "50 of 300 bytes; counted as definitions",
}

// TestEverythingStoredIsBounded stores with every request until the client has too much, and sees that
// every other request that writes says what limits it.
func TestEverythingStoredIsBounded(t *testing.T) {
	t.Parallel()
	const most = 20_000
	long := strings.Repeat("x", most*2/5)
	for version, cases := range storing {
		routes := apitest.New(t).Routes[version]
		for _, r := range routes {
			name := r.Method + " " + r.Pattern
			stores := !slices.Contains([]string{http.MethodGet, http.MethodDelete, http.MethodOptions}, r.Method)
			if stores && cases[name] == "" && bounded[name] == "" {
				t.Errorf("version %d: what does %s store, and how much at most?", version, name)
			}
		}
		for name, body := range cases {
			t.Run(fmt.Sprintf("%d %s", version, name), func(t *testing.T) {
				t.Parallel()
				w := apitest.Bounded(t, actions.Limits{}, notify.Bounds{Sends: most, Definitions: most})
				c := w.Client("shop")
				method, path, _ := strings.Cut(name, " ")
				fill := strings.NewReplacer(append([]string{"$", long, "{name}", "n"}, parents(t, w, c, version)...)...)
				path, body = fill.Replace(path), fill.Replace(body)
				var last apitest.Answer
				for i := range 10 {
					if last = w.Call(version, c, method, path, strings.ReplaceAll(body, "#", fmt.Sprint(i))); last.Status >= 400 {
						break
					}
				}
				if last.Status != http.StatusInsufficientStorage || !strings.Contains(last.Body, fmt.Sprint(most)) {
					t.Fatalf("%d %.300s", last.Status, last.Body)
				}
				var usage struct{ Sends, Definitions struct{ Bytes, Limit int64 } }
				w.Expect(version, c, "GET", "/usage", "", 200, "").Into(&usage)
				if usage.Sends.Bytes > most || usage.Definitions.Bytes > most || usage.Sends.Limit != most {
					t.Errorf("%+v is stored", usage)
				}
				// Another client is not affected, and this one can read and delete.
				other := w.Client("other")
				w.Expect(1, other, "PUT", "/notifications", `{"source_name":"S","notifications":{"k":{"description":"d"}}}`, 204, "")
				w.Expect(1, other, "POST", "/users/u", `{"kind_id":"k","text":"t"}`, 200, "")
				w.Expect(version, c, "GET", "/templates", "", 200, "")
			})
		}
	}
	w := apitest.New(t)
	w.Expect(1, w.Client("shop", "notifications.write"), "GET", "/usage?client_id=other", "", 403, "")
	w.Expect(1, w.Client("shop"), "GET", "/usage?client_id=other", "", 200, "")
	w.Expect(1, w.Client("shop"), "GET", "/usage?client_id=*", "", 404, "")
	w.Expect(1, w.Client("shop"), "GET", "/usage?x=1", "", 400, "")
}

// parents makes what the paths name, and returns it by the names of the parameters.
func parents(t *testing.T, w *apitest.World, c string, version int) []string {
	t.Helper()
	w.Directory.Members["space-1"], w.Directory.Users["u"] = []string{"u"}, "u@example.com"
	w.Expect(1, c, "PUT", "/notifications", `{"source_name":"S","notifications":{"k":{"description":"d"}}}`, 204, "")
	w.Expect(1, c, "PUT", "/topics/t", `{}`, 201, "")
	out := []string{"{topic}", "t", "{client}", "shop", "{kind}", "k", "{id}", "space-1", "{locale}", "de",
		"{partial}", "p"}
	id := func(path, body, field string) string {
		var made map[string]any
		w.Expect(version, c, "POST", path, body, 201, "").Into(&made)
		return fmt.Sprint(made[field])
	}
	if version == 1 {
		return append(out, "{template}", id("/templates", `{"name":"t","html":"h"}`, "template-id"))
	}
	sender := id("/senders", `{"name":"s"}`, "id")
	return append(out, "{template}", id("/templates", `{"name":"t","html":"h"}`, "id"), "{sender}", sender,
		"{type}", id("/senders/"+sender+"/campaign_types", `{"name":"t","description":"d"}`, "id"))
}
