package api

import (
	"bytes"
	"encoding/json"
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// resource declares a kind of resource: how it is found, listed and shown. The
// endpoints that only read are made of it.
type resource[T, B any] struct {
	noun    string // "App", for "App not found"
	repo    func(platform.Tx) platform.Repo[T]
	list    listing
	present func(p *presenter, items []*T) ([]B, error)
	// include fills "included" as the request asks; nil includes nothing.
	include func(p *presenter, l *list, items []*T) (map[string]any, error)
	// metadataOnly refuses a PATCH without metadata: nothing else can be changed.
	metadataOnly bool
}

// presenter is what showing resources needs: the transaction they were read
// in, so that what belongs to them is of the same moment, and the request.
type presenter struct {
	tx     platform.Tx
	r      *http.Request
	base   string
	caller caller
}

func newPresenter(tx platform.Tx, r *http.Request) *presenter {
	return &presenter{tx: tx, r: r, base: baseURL(r), caller: callerOf(r)}
}

// v3 is the link to a path below /v3.
func (p *presenter) v3(parts ...string) *link {
	return href(append([]string{p.base, "/v3"}, parts...)...)
}

// each makes a presenter of pages of one for single resources.
func each[T, B any](one func(p *presenter, item *T) B) func(*presenter, []*T) ([]B, error) {
	return func(p *presenter, items []*T) ([]B, error) {
		return presentAll(items, func(item *T) B { return one(p, item) }), nil
	}
}

// lister answers GET of the whole collection, as far as the caller sees it.
func (s resource[T, B]) lister(a *API) web.Handler {
	return s.listerWhere(a, nil)
}

// listerWhere is lister within conditions that the request's path sets.
func (s resource[T, B]) listerWhere(a *API, where func(p *presenter) ([]platform.Cond, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		l, err := s.list.parse(r)
		if err != nil {
			return err
		}
		l.query.Reader = callerOf(r).Reader()
		var bodies []B
		var total int
		var included map[string]any
		err = a.store.View(r.Context(), func(tx platform.Tx) error {
			p := newPresenter(tx, r)
			if where != nil {
				more, err := where(p)
				if err != nil {
					return err
				}
				l.query.Where = append(l.query.Where[:len(l.query.Where):len(l.query.Where)], more...)
			}
			page, n, err := s.repo(tx).List(l.query)
			if err != nil {
				return err
			}
			total = n
			if bodies, err = s.present(p, page); err != nil {
				return err
			}
			if s.include != nil {
				included, err = s.include(p, l, page)
			}
			return err
		})
		if err != nil {
			return err
		}
		l.write(w, total, bodies, included)
		return nil
	}
}

// listerOf is lister below a parent: GET /v3/apps/{guid}/processes.
func listerOf[T, B, P any](a *API, s resource[T, B], parent func(platform.Tx) platform.Repo[P], noun, field string) web.Handler {
	return s.listerWhere(a, func(p *presenter) ([]platform.Cond, error) {
		guid := web.Param(p.r, "guid")
		if _, err := find(p.caller, parent(p.tx), guid, noun); err != nil {
			return nil, err
		}
		return []platform.Cond{platform.In(field, guid)}, nil
	})
}

// getter answers GET of one.
func (s resource[T, B]) getter(a *API) web.Handler {
	return s.getterBy(a, s.find)
}

// find is the resource of the path, if the caller may see it.
func (s resource[T, B]) find(p *presenter) (*T, error) {
	return find(p.caller, s.repo(p.tx), web.Param(p.r, "guid"), s.noun)
}

// getterBy is getter for resources that are found in another way.
func (s resource[T, B]) getterBy(a *API, get func(p *presenter) (*T, error)) web.Handler {
	one := listing{includes: s.list.includes, fields: s.list.fields, embeds: s.list.embeds, extra: s.list.extra, single: true}
	return func(w http.ResponseWriter, r *http.Request) error {
		l, err := one.parse(r)
		if err != nil {
			return err
		}
		var out withIncluded
		err = a.store.View(r.Context(), func(tx platform.Tx) error {
			p := newPresenter(tx, r)
			item, err := get(p)
			if err != nil {
				return err
			}
			bodies, err := s.present(p, []*T{item})
			if err != nil {
				return err
			}
			out.body = bodies[0]
			if s.include != nil && (len(l.include) > 0 || len(l.fields) > 0) {
				out.included, err = s.include(p, l, []*T{item})
			}
			return err
		})
		if err != nil {
			return err
		}
		if out.included != nil {
			web.WriteJSON(w, http.StatusOK, out)
			return nil
		}
		web.WriteJSON(w, http.StatusOK, out.body)
		return nil
	}
}

// answer runs f in a transaction and answers with the resource it returns. f
// may run more than once, so the request's body is read before. The answer is
// made in a transaction of its own: it may take a moment, and writers wait.
func answer[T, B any](a *API, w http.ResponseWriter, r *http.Request, s resource[T, B], status int, f func(p *presenter) (*T, error)) error {
	var item *T
	err := a.store.Update(r.Context(), func(tx platform.Tx) (err error) {
		item, err = f(newPresenter(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	return respond(a, w, r, s, status, item)
}

// respond answers with a resource that is stored.
func respond[T, B any](a *API, w http.ResponseWriter, r *http.Request, s resource[T, B], status int, item *T) error {
	var bodies []B
	err := a.store.View(r.Context(), func(tx platform.Tx) (err error) {
		bodies, err = s.present(newPresenter(tx, r), []*T{item})
		return err
	})
	if err != nil {
		return err
	}
	web.WriteJSON(w, status, bodies[0])
	return nil
}

// withIncluded adds the member "included" to a body.
type withIncluded struct {
	body     any
	included map[string]any
}

// MarshalJSON puts the member behind those of the body, which is an object.
func (b withIncluded) MarshalJSON() ([]byte, error) {
	body, err := json.Marshal(b.body)
	if err != nil {
		return nil, err
	}
	included, err := json.Marshal(b.included)
	if err != nil {
		return nil, err
	}
	out := append(bytes.TrimSuffix(body, []byte("}")), `,"included":`...)
	return append(append(out, included...), '}'), nil
}

// show answers with what f reads.
func (a *API) show(w http.ResponseWriter, r *http.Request, f func(p *presenter) (any, error)) error {
	var body any
	err := a.store.View(r.Context(), func(tx platform.Tx) (err error) {
		body, err = f(newPresenter(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, body)
	return nil
}

// perform answers with what f did.
//
// What comes after is done between storing and answering.
func (a *API) perform(w http.ResponseWriter, r *http.Request, status int, f func(p *presenter) (any, error), after ...func()) error {
	var body any
	err := a.store.Update(r.Context(), func(tx platform.Tx) (err error) {
		body, err = f(newPresenter(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	for _, do := range after {
		do()
	}
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return nil
	}
	web.WriteJSON(w, status, body)
	return nil
}

// finish does work that clients expect to be a job, and answers with a job
// that is complete: being done at the first poll is what makes them quick.
func (a *API) finish(w http.ResponseWriter, r *http.Request, operation string, f func(p *presenter) error) error {
	var job *platform.Job
	err := a.store.Update(r.Context(), func(tx platform.Tx) (err error) {
		if err := f(newPresenter(tx, r)); err != nil {
			return err
		}
		job, err = a.platform.CreateJob(tx, platform.Job{Operation: operation, State: platform.JobComplete})
		return err
	})
	if err != nil {
		return err
	}
	acceptJob(w, r, job)
	return nil
}

// uploaded answers with a resource whose file was uploaded, and with where the
// job can be found that clients expect.
func uploaded[T, B any](a *API, w http.ResponseWriter, r *http.Request, s resource[T, B], f func(p *presenter) (*T, platform.Job, error)) error {
	var item *T
	var job *platform.Job
	err := a.store.Update(r.Context(), func(tx platform.Tx) error {
		stored, done, err := f(newPresenter(tx, r))
		if err != nil {
			return err
		}
		item = stored
		job, err = a.platform.CreateJob(tx, done)
		return err
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", baseURL(r)+"/v3/jobs/"+escape(job.GUID))
	return respond(a, w, r, s, http.StatusAccepted, item)
}

// metadataPatcher answers PATCH of a resource of which nothing but the metadata
// can be changed, by callers who may change what find returns.
func metadataPatcher[T, B any, P actions.Described[T]](a *API, s resource[T, B], find func(p *presenter) (*T, error)) web.Handler {
	return patcher(a, s, find, func(tx platform.Tx, _ actions.Actor, item *T, patch *actions.MetadataPatch) error {
		return actions.UpdateMetadata(s.repo(tx), P(item), patch)
	})
}

// patcher is metadataPatcher with an action that also records an audit event.
func patcher[T, B any](a *API, s resource[T, B], find func(p *presenter) (*T, error),
	update func(platform.Tx, actions.Actor, *T, *actions.MetadataPatch) error,
) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body struct {
			Metadata *actions.MetadataPatch `json:"metadata"`
		}
		if err := web.DecodeStrict(r, &body); err != nil {
			return err
		}
		if s.metadataOnly && body.Metadata == nil {
			return fault.Invalid("Metadata must be given: nothing else can be changed here")
		}
		return answer(a, w, r, s, http.StatusOK, func(p *presenter) (*T, error) {
			item, err := find(p)
			if err != nil {
				return nil, err
			}
			return item, update(p.tx, p.caller.actor(), item, body.Metadata)
		})
	}
}

// only leaves out what find returns beside the resource.
func only[T, U any](find func(p *presenter) (*T, U, error)) func(p *presenter) (*T, error) {
	return func(p *presenter) (*T, error) {
		item, _, err := find(p)
		return item, err
	}
}

// guidsOf collects what resources refer to, each once.
func guidsOf[T any](items []*T, guid func(*T) string) []string {
	var out []string
	seen := map[string]bool{"": true}
	for _, item := range items {
		if g := guid(item); !seen[g] {
			seen[g] = true
			out = append(out, g)
		}
	}
	return out
}

// included reads resources for "included". The caller sees them because he
// sees what refers to them.
func included[T, B any](p *presenter, name string, s resource[T, B], guids []string) (map[string]any, error) {
	found, _, err := s.repo(p.tx).List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids)}})
	if err != nil {
		return nil, err
	}
	bodies, err := s.present(p, found)
	return map[string]any{name: bodies}, err
}
