package logs_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"go.uber.org/goleak"

	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logfiles"
	"ingot/internal/platform/logs/logstest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The cache of verified tokens has its own clock.
		goleak.IgnoreAnyFunction("github.com/maypok86/otter/v2.periodicCleanUp[...]"))
}

const issuer = "http://uaa.test/oauth/token"

// desk is the API with a store behind it and a maker of tokens.
type desk struct {
	history *logs.History // of newQueryDesk
	t       testing.TB
	store   logs.Store
	url     string
	server  *web.Server
	key     *ecdsa.PrivateKey

	mu     sync.Mutex
	abouts map[string]*logs.About
}

func (d *desk) Key(context.Context, string) (any, error) { return &d.key.PublicKey, nil }

// MayRead lets users see the app that is named like them.
func (d *desk) MayRead(_ context.Context, c *token.Claims, app string) (bool, error) {
	if app == "broken" {
		return false, errors.New("the database is away")
	}
	return c.UserName == app, nil
}

// About has names of an app that can be changed.
func (d *desk) About(_ context.Context, app string) *logs.About {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.abouts[app] == nil {
		return &logs.About{Tags: map[string]string{"deployment": "test"}}
	}
	return d.abouts[app]
}

func (d *desk) rename(app, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.abouts == nil {
		d.abouts = map[string]*logs.About{}
	}
	d.abouts[app] = &logs.About{Tags: map[string]string{"app_name": name, "deployment": "test"},
		Processes: map[string]string{"WEB": app + "-web"}}
}

// Gauges measures one instance of each app.
func (d *desk) Gauges(_ context.Context, apps []string) ([]logs.Gauge, error) {
	if apps == nil {
		apps = []string{"one", "two"}
	}
	var all []logs.Gauge
	for _, app := range apps {
		all = append(all, logs.Gauge{App: app, Process: "WEB", Instance: app + "-i", Index: 1, Time: time.Now(),
			Metrics: map[string]logs.Metric{
				"cpu": {"percentage", 12.5}, "memory": {"bytes", 1 << 20}, "disk": {"bytes", 1 << 21},
			}})
	}
	return all, nil
}

func newDesk(t testing.TB) *desk { return newDeskWith(t, logs.Options{}, logfiles.Options{}) }

func newDeskWith(t testing.TB, o logs.Options, files logfiles.Options, limits ...web.Limits) *desk {
	t.Helper()
	store, err := logfiles.Open(t.TempDir(), files)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Stop)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, store: store, key: key}
	log := slog.New(slog.DiscardHandler)
	m := web.NewMux(web.FormatV3, log, nil)
	g := m.Group("log-cache", web.FormatV3, token.NewVerifier(token.Options{Issuer: issuer, Keys: d}))
	for _, l := range limits {
		g = g.Within(l)
	}
	logs.Routes(d.store, d, o, g)
	l, err := web.Listen(t.Context(), "listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.server = web.NewServer(l, web.Pipeline(m, web.FormatV3, log), log)
	if err := d.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.server.Stop)
	d.url = "http://" + l.Addr().String()
	return d
}

func (d *desk) token(user string, scopes ...string) string {
	d.t.Helper()
	return d.tokenUntil(time.Now().Add(time.Hour), user, scopes...)
}

func (d *desk) tokenUntil(end time.Time, user string, scopes ...string) string {
	d.t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: d.key, KeyID: "k"}}, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	raw, err := jwt.Signed(s).Claims(map[string]any{
		"jti": user, "iss": issuer, "cid": "cf", "user_id": user, "user_name": user, "scope": scopes,
		"iat": time.Now().Unix(), "exp": end.Unix(),
	}).Serialize()
	if err != nil {
		d.t.Fatal(err)
	}
	return raw
}

func (d *desk) get(path, bearer string) (int, string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if bearer != "" {
		r.Header.Set("Authorization", "bearer "+bearer)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		d.t.Fatal(err)
	}
	return res.StatusCode, b.String()
}

// answer is all that a client of log-cache accepts in the answer to a read.
type answer struct {
	Envelopes *struct {
		Batch []envelope `json:"batch"`
	} `json:"envelopes"`
}

type envelope struct {
	Timestamp      int64             `json:"timestamp,string"`
	SourceID       string            `json:"source_id"`
	InstanceID     string            `json:"instance_id"`
	DeprecatedTags map[string]any    `json:"deprecated_tags"`
	Tags           map[string]string `json:"tags"`
	Log            *struct {
		Payload []byte `json:"payload"`
		Type    string `json:"type"`
	} `json:"log"`
	Gauge any `json:"gauge"`
}

func (d *desk) read(query string) []envelope {
	d.t.Helper()
	status, body := d.get("/api/v1/read/"+query, d.token("admin", "cloud_controller.admin"))
	if status != http.StatusOK {
		d.t.Fatalf("%s answers %d, want 200: %s", query, status, body)
	}
	var a answer
	dec := json.NewDecoder(strings.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil || a.Envelopes == nil || a.Envelopes.Batch == nil {
		d.t.Fatalf("%s: %v, want a batch of envelopes: %s", query, err, body)
	}
	return a.Envelopes.Batch
}

func TestReadAPI(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	at := logstest.T0.UnixNano()
	logstest.Add(t, d.store,
		platform.LogLine{App: "a", Time: logstest.T0, Source: "APP/PROC/WEB/SIDECAR/CONFIG \"x\"", Instance: "3",
			Text: []byte("héllo\n<b>"), Stream: "i-1", Seq: 1, Tags: map[string]string{"app_id": "forged", "space_id": "sp"}},
		platform.LogLine{App: "a", Time: logstest.T0.Add(1), Source: "STG", Instance: "0", Text: []byte{0xff, 0},
			Stderr: true})
	got := d.read("a?start_time=-6795364578871345152&envelope_types=LOG&descending=true&limit=1000")
	if len(got) != 2 || got[0].Timestamp != at+1 || got[1].Timestamp != at {
		t.Fatalf("envelopes are %+v, want 2, the newest first", got)
	}
	if e := got[0]; e.Log.Type != "ERR" || !bytes.Equal(e.Log.Payload, []byte{0xff, 0}) ||
		e.Tags["source_type"] != "STG" || e.Tags["process_instance_id"] != "" {
		t.Errorf("envelope is %+v, want the bytes of STG as ERR", e)
	}
	want := map[string]string{
		"source_type": "APP/PROC/WEB/SIDECAR/CONFIG \"x\"", "app_id": "a", "source_id": "a", "instance_id": "3",
		"space_id": "sp", "process_instance_id": "i-1", "process_type": "web", "deployment": "test", "job": "diego-cell",
		"origin": "rep",
	}
	if e := got[1]; e.Log.Type != "OUT" || string(e.Log.Payload) != "héllo\n<b>" || e.SourceID != "a" ||
		e.InstanceID != "3" || fmt.Sprint(e.Tags) != fmt.Sprint(want) {
		t.Errorf("%+v\nwant tags %v", e, want)
	}
	for query, n := range map[string]int{
		"a":                                      3, // with the measurement of its instance
		"a?limit=1":                              1,
		"a?limit=0":                              3,
		"a?descending=true&limit=1&start_time=0": 1,
		fmt.Sprintf("a?start_time=%d", at+1):     2,
		fmt.Sprintf("a?end_time=%d", at+1):       1,
		"a?envelope_types=COUNTER":               0,
		"a?envelope_types=COUNTER&envelope_types=LOG": 2,
		"a?envelope_types=1":                          2,
		"a?envelope_types=ANY":                        3,
		"nothing?envelope_types=LOG":                  0,
	} {
		if got := d.read(query); len(got) != n {
			t.Errorf("%s: %d envelopes, want %d", query, len(got), n)
		}
	}
	for _, query := range []string{"limit=1001", "limit=-1", "limit=x", "start_time=x", "end_time=1e9", "descending=maybe",
		"envelope_types=NOISE", "start_time=5&end_time=4"} {
		if status, body := d.get("/api/v1/read/a?"+query,
			d.token("admin", "doppler.firehose")); status != http.StatusBadRequest {
			t.Errorf("%s answers %d, want 400: %s", query, status, body)
		}
	}
}

func TestWhoMayRead(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	logstest.Add(t, d.store, logstest.Line("anna", "s", 1, logstest.T0, "hers"),
		logstest.Line("bert", "t", 1, logstest.T0, "his"))
	anna := d.token("anna", "cloud_controller.read")
	for name, tc := range map[string]struct {
		path, bearer string
		status       int
		has, not     string
	}{
		"own":       {"/api/v1/read/anna", anna, http.StatusOK, `"anna"`, ""},
		"other's":   {"/api/v1/read/bert", anna, http.StatusNotFound, "", "envelopes"},
		"absent":    {"/api/v1/read/none", anna, http.StatusNotFound, "", "envelopes"},
		"odd name":  {"/api/v1/read/..%2Fanna", anna, http.StatusNotFound, "", "envelopes"},
		"broken":    {"/api/v1/read/broken", anna, http.StatusInternalServerError, "", "database"},
		"no token":  {"/api/v1/read/anna", "", http.StatusUnauthorized, "", "envelopes"},
		"bad token": {"/api/v1/read/anna", "x.y.z", http.StatusUnauthorized, "", "envelopes"},
		"meta": {"/api/v1/meta", anna, http.StatusOK,
			`"anna":{"count":"1","expired":"0","oldest_timestamp":"1772366400000000000","newest_timestamp":"1772366400000000000"}`, "bert"},
		"meta no token":  {"/api/v1/meta", "", http.StatusUnauthorized, "", "anna"},
		"meta of all":    {"/api/v1/meta", d.token("x", "logs.admin"), http.StatusOK, "bert", ""},
		"auditor":        {"/api/v1/read/bert", d.token("x", "cloud_controller.global_auditor"), http.StatusOK, "bert", ""},
		"read-only":      {"/api/v1/read/bert", d.token("x", "cloud_controller.admin_read_only"), http.StatusOK, "bert", ""},
		"unrelated":      {"/api/v1/read/bert", d.token("x", "cloud_controller.write"), http.StatusForbidden, "", "bert"},
		"info":           {"/api/v1/info", "", http.StatusOK, `"vm_uptime":"`, ""},
		"unknown method": {"/api/v1/other", anna, http.StatusNotFound, "", ""},
	} {
		status, body := d.get(tc.path, tc.bearer)
		if status != tc.status || !strings.Contains(body, tc.has) || tc.not != "" && strings.Contains(body, tc.not) {
			t.Errorf("%s: answer is %d %s, want %d with %q and without %q", name, status, body, tc.status, tc.has, tc.not)
		}
	}
	if _, body := d.get("/api/v1/info", ""); !regexp.MustCompile(`"version":"2\.\d+\.\d+"`).MatchString(body) {
		t.Errorf("info %s", body)
	}
}
