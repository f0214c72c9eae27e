package api

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
)

// resource declares a type of resource: how it is found, listed and presented. Read
// endpoints are built from it.
type resource[T, B any] struct {
	noun    string // "App", for "App not found"
	repo    func(platform.Tx) platform.Repo[T]
	list    listing.Params
	present func(req *request, items []*T) ([]B, error)
	// include returns the requested "included"; nil includes nothing.
	include func(req *request, l *listing.Request, items []*T) (map[string]any, error)
	// metadataOnly rejects a PATCH without metadata: nothing else can be changed.
	metadataOnly bool
	// withoutSecrets means that present needs no encrypted fields; reading them takes time.
	withoutSecrets bool
}

// each presents the resources of a page one by one.
func each[T, B any](one func(req *request, item *T) B) func(*request, []*T) ([]B, error) {
	return func(req *request, items []*T) ([]B, error) {
		return presentAll(items, func(item *T) B { return one(req, item) }), nil
	}
}

// lister handles GET of the collection, restricted to what the caller may see.
func (s resource[T, B]) lister(a *API) web.Handler {
	return s.listerWhere(a, nil)
}

// listerWhere is like lister, with conditions from the path of the request.
func (s resource[T, B]) listerWhere(a *API, where func(req *request) ([]platform.Cond, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		l, err := s.list.Parse(r, baseURL(r))
		if err != nil {
			return err
		}
		l.Query.Reader, l.Query.WithoutSecrets = callerOf(r).Reader(), s.withoutSecrets
		var bodies []B
		var total int
		var included map[string]any
		err = a.store.View(r.Context(), func(tx platform.Tx) error {
			req := newRequest(tx, r)
			if where != nil {
				more, err := where(req)
				if err != nil {
					return err
				}
				l.Query.Where = append(l.Query.Where[:len(l.Query.Where):len(l.Query.Where)], more...)
			}
			page, n, err := s.repo(tx).List(l.Query)
			if err != nil {
				return err
			}
			total = n
			if bodies, err = s.present(req, page); err != nil {
				return err
			}
			if s.include != nil {
				included, err = s.include(req, l, page)
			}
			return err
		})
		if err != nil {
			return err
		}
		l.Write(w, total, bodies, included)
		return nil
	}
}

// listerOf is like lister, below a parent: GET /v3/apps/{guid}/processes.
func listerOf[T, B, P any](a *API, s resource[T, B], parent func(platform.Tx) platform.Repo[P], noun, field string) web.Handler {
	return s.listerWhere(a, func(req *request) ([]platform.Cond, error) {
		guid := web.Param(req.r, "guid")
		if _, err := find(req.caller, parent(req.tx), guid, noun); err != nil {
			return nil, err
		}
		return []platform.Cond{platform.In(field, guid)}, nil
	})
}

// getter handles GET of a resource.
func (s resource[T, B]) getter(a *API) web.Handler {
	return s.getterBy(a, s.find)
}

// find returns the resource of the path if the caller may see it.
func (s resource[T, B]) find(req *request) (*T, error) {
	return find(req.caller, s.repo(req.tx), web.Param(req.r, "guid"), s.noun)
}

// getterBy is like getter, for resources that are found in another way.
func (s resource[T, B]) getterBy(a *API, get func(req *request) (*T, error)) web.Handler {
	one := listing.Params{Includes: s.list.Includes, Fields: s.list.Fields, Embeds: s.list.Embeds, Single: true}
	return func(w http.ResponseWriter, r *http.Request) error {
		l, err := one.Parse(r, baseURL(r))
		if err != nil {
			return err
		}
		var out withIncluded
		err = a.store.View(r.Context(), func(tx platform.Tx) error {
			req := newRequest(tx, r)
			item, err := get(req)
			if err != nil {
				return err
			}
			bodies, err := s.present(req, []*T{item})
			if err != nil {
				return err
			}
			out.body = bodies[0]
			if s.include != nil && (len(l.Include) > 0 || len(l.Fields) > 0) {
				out.included, err = s.include(req, l, []*T{item})
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

// metadataPatcher handles PATCH of a resource whose metadata alone can be changed.
// find checks whether the caller may change it.
func metadataPatcher[T, B any, P actions.Described[T]](a *API, s resource[T, B], find func(req *request) (*T, error)) web.Handler {
	return patcher(a, s, find, func(tx platform.Tx, _ actions.Actor, item *T, patch *actions.MetadataPatch) error {
		return actions.UpdateMetadata(s.repo(tx), P(item), patch)
	})
}

// patcher is like metadataPatcher, with an action that also records an audit event.
func patcher[T, B any](a *API, s resource[T, B], find func(req *request) (*T, error),
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
		return answer(a, w, r, s, http.StatusOK, func(req *request) (*T, error) {
			item, err := find(req)
			if err != nil {
				return nil, err
			}
			return item, update(req.tx, req.caller.actor(), item, body.Metadata)
		})
	}
}

// only drops what find returns beside the resource.
func only[T, U any](find func(req *request) (*T, U, error)) func(req *request) (*T, error) {
	return func(req *request) (*T, error) {
		item, _, err := find(req)
		return item, err
	}
}
