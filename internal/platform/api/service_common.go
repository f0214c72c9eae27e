package api

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/platform"
)

// What the resources of services have in common.

// shortWait is how long an answer waits for its job: clients that ask for the
// job then find it done, and otherwise ask again after seconds.
const shortWait = 1500 * time.Millisecond

// accepted answers with a job, once it is done or has taken a moment.
func (a *API) accepted(w http.ResponseWriter, r *http.Request, j *platform.Job) {
	if j.State == platform.JobProcessing {
		ctx, cancel := context.WithTimeout(r.Context(), shortWait)
		defer cancel()
		a.services.Wait(ctx, j.GUID)
	}
	acceptJob(w, r, j)
}

// conclude does what may have to wait for brokers: the answer is the job that
// f returns, or one that is done.
func (a *API) conclude(w http.ResponseWriter, r *http.Request, operation string, f func(p *presenter) (*platform.Job, error)) error {
	var job *platform.Job
	err := a.store.Update(r.Context(), func(tx platform.Tx) (err error) {
		if job, err = f(newPresenter(tx, r)); err != nil || job != nil {
			return err
		}
		job, err = a.platform.CreateJob(tx, platform.Job{Operation: operation, State: platform.JobComplete})
		return err
	})
	if err != nil {
		return err
	}
	a.accepted(w, r, job)
	return nil
}

// orJob is conclude for what is answered with 204 when it is done at once.
func (a *API) orJob(w http.ResponseWriter, r *http.Request, f func(p *presenter) (*platform.Job, error)) error {
	var job *platform.Job
	err := a.store.Update(r.Context(), func(tx platform.Tx) (err error) {
		job, err = f(newPresenter(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	if job == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	a.accepted(w, r, job)
	return nil
}

// object is a JSON object in a request whose numbers keep all their digits. It
// is nil when it is absent or null.
type object map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (o *object) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return err
	}
	*o = m
	return nil
}

// warn adds a warning that clients print.
func warn(w http.ResponseWriter, text string) {
	w.Header().Add("X-Cf-Warnings", url.QueryEscape(text))
}

// warned is a response with a warning that becomes known while the request is
// carried out.
type warned struct {
	http.ResponseWriter
	text *string
}

// WriteHeader implements http.ResponseWriter.
func (w warned) WriteHeader(status int) {
	if *w.text != "" && status < 300 {
		warn(w.ResponseWriter, *w.text)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w warned) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// deref returns the values that pointers lead to.
func deref[T any](list []*T) []T {
	out := make([]T, len(list))
	for i, p := range list {
		out[i] = *p
	}
	return out
}

type operationBody struct {
	Type        string                  `json:"type"`
	State       platform.OperationState `json:"state"`
	Description string                  `json:"description"`
	Created     string                  `json:"created_at"`
	Updated     string                  `json:"updated_at"`
}

func presentOperation(o platform.LastOperation) *operationBody {
	if o.Type == "" {
		return nil
	}
	return &operationBody{o.Type, o.State, o.Description, timestamp(o.Created), timestamp(o.Updated)}
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// strings are never null in an answer.
func notNull(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func notNullObject(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// picked are resources for "included", reduced to the fields that were asked
// for; "relationships.x" asks for that relationship.
func picked[T, B any](p *presenter, name string, s resource[T, B], guids, fields []string) (map[string]any, error) {
	found, _, err := s.repo(p.tx).List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids)}})
	if err != nil {
		return nil, err
	}
	bodies, err := s.present(p, found)
	if err != nil {
		return nil, err
	}
	out := make([]map[string]any, 0, len(bodies))
	for _, b := range bodies {
		one, err := pick(b, fields)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return map[string]any{name: out}, nil
}

func pick(body any, fields []string) (map[string]any, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, f := range fields {
		name, inner, nested := strings.Cut(f, ".")
		value, ok := all[name]
		if !ok {
			continue
		}
		if !nested {
			out[name] = value
			continue
		}
		from, _ := value.(map[string]any)
		if part, ok := from[inner]; ok {
			to, _ := out[name].(map[string]any)
			if to == nil {
				to = map[string]any{}
			}
			to[inner] = part
			out[name] = to
		}
	}
	return out, nil
}

// chain follows from resources to what they belong to and includes each that
// was asked for.
type chain struct {
	p   *presenter
	l   *list
	out map[string]any
}

func (c *chain) done() map[string]any {
	if len(c.out) == 0 {
		return nil
	}
	return c.out
}

// add includes what key asks for.
func (c *chain) add(key string, include func(fields []string) (map[string]any, error)) error {
	fields, asked := c.l.fields[key]
	if !asked {
		return nil
	}
	more, err := include(fields)
	maps.Copy(c.out, more)
	return err
}

// places includes spaces and their organizations by fields.
func (c *chain) places(prefix string, spaceGUIDs []string) error {
	if err := c.add(prefix+"space", func(f []string) (map[string]any, error) { return picked(c.p, "spaces", spaces, spaceGUIDs, f) }); err != nil {
		return err
	}
	return c.add(prefix+"space.organization", func(f []string) (map[string]any, error) {
		inside, _, err := c.p.tx.Spaces().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", spaceGUIDs)}})
		if err != nil {
			return nil, err
		}
		return picked(c.p, "organizations", organizations, guidsOf(inside, func(s *platform.Space) string { return s.OrgGUID }), f)
	})
}

// catalog includes offerings of plans and their brokers by fields.
func (c *chain) catalog(offering, broker string, offeringGUIDs []string) error {
	err := c.add(offering, func(f []string) (map[string]any, error) {
		return picked(c.p, "service_offerings", serviceOfferings, offeringGUIDs, f)
	})
	if err != nil {
		return err
	}
	return c.add(broker, func(f []string) (map[string]any, error) {
		found, _, err := c.p.tx.ServiceOfferings().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", offeringGUIDs)}})
		if err != nil {
			return nil, err
		}
		return picked(c.p, "service_brokers", serviceBrokers, guidsOf(found, func(o *platform.ServiceOffering) string { return o.BrokerGUID }), f)
	})
}

// mayChangeCatalog lets administrators change what a broker offers, and the
// developers of its space.
func (p *presenter) mayChangeCatalog(broker *platform.ServiceBroker) error {
	if broker.SpaceGUID == "" {
		if p.caller.Admin {
			return nil
		}
		return forbidden()
	}
	_, err := p.caller.mayInSpace(p.tx, broker.SpaceGUID, platform.Develop)
	return err
}
