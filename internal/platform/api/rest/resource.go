package rest

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
)

// Resource declares a type of resource: how it is found, listed and presented. Read
// endpoints are built from it.
type Resource[T, B any] struct {
	Noun    string // "App", for "App not found"
	Repo    func(platform.Tx) platform.Repo[T]
	List    listing.Params
	Present func(req *Request, items []*T) ([]B, error)
	// Include returns the requested "included"; nil includes nothing.
	Include func(req *Request, l *listing.Request, items []*T) (map[string]any, error)
	// MetadataOnly rejects a PATCH without metadata: nothing else can be changed.
	MetadataOnly bool
	// WithoutSecrets means that Present needs no encrypted fields; reading them takes time.
	WithoutSecrets bool
}

// Each presents the resources of a page one by one.
func Each[T, B any](one func(req *Request, item *T) B) func(*Request, []*T) ([]B, error) {
	return func(req *Request, items []*T) ([]B, error) {
		return PresentAll(items, func(item *T) B { return one(req, item) }), nil
	}
}

// Lister handles GET of the collection, restricted to what the caller may see.
func (s Resource[T, B]) Lister(srv *Server) web.Handler {
	return s.ListerWhere(srv, nil)
}

// ListerWhere is like Lister, with conditions from the path of the request.
func (s Resource[T, B]) ListerWhere(srv *Server, where func(req *Request) ([]platform.Cond, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		l, err := s.List.Parse(r, BaseURL(r))
		if err != nil {
			return err
		}
		l.Query.Reader, l.Query.WithoutSecrets = CallerOf(r).Reader(), s.WithoutSecrets
		var bodies []B
		var total int
		var included map[string]any
		err = srv.Store.View(r.Context(), func(tx platform.Tx) error {
			req := NewRequest(tx, r)
			if where != nil {
				more, err := where(req)
				if err != nil {
					return err
				}
				l.Query.Where = append(l.Query.Where[:len(l.Query.Where):len(l.Query.Where)], more...)
			}
			page, n, err := s.Repo(tx).List(l.Query)
			if err != nil {
				return err
			}
			total = n
			if bodies, err = s.Present(req, page); err != nil {
				return err
			}
			if s.Include != nil {
				included, err = s.Include(req, l, page)
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

// ListerOf is like Lister, below a parent: GET /v3/apps/{guid}/processes.
func ListerOf[T, B, P any](srv *Server, s Resource[T, B], parent func(platform.Tx) platform.Repo[P], noun,
	field string) web.Handler {
	return s.ListerWhere(srv, func(req *Request) ([]platform.Cond, error) {
		guid := web.Param(req.HTTP, "guid")
		if _, err := Find(req.Caller, parent(req.Tx), guid, noun); err != nil {
			return nil, err
		}
		return []platform.Cond{platform.In(field, guid)}, nil
	})
}

// Getter handles GET of a resource.
func (s Resource[T, B]) Getter(srv *Server) web.Handler {
	return s.GetterBy(srv, s.Find)
}

// Find returns the resource of the path if the caller may see it.
func (s Resource[T, B]) Find(req *Request) (*T, error) {
	return Find(req.Caller, s.Repo(req.Tx), web.Param(req.HTTP, "guid"), s.Noun)
}

// GetterBy is like Getter, for resources that are found in another way.
func (s Resource[T, B]) GetterBy(srv *Server, get func(req *Request) (*T, error)) web.Handler {
	one := listing.Params{Includes: s.List.Includes, Fields: s.List.Fields, Embeds: s.List.Embeds, Single: true}
	return func(w http.ResponseWriter, r *http.Request) error {
		l, err := one.Parse(r, BaseURL(r))
		if err != nil {
			return err
		}
		var out withIncluded
		err = srv.Store.View(r.Context(), func(tx platform.Tx) error {
			req := NewRequest(tx, r)
			item, err := get(req)
			if err != nil {
				return err
			}
			bodies, err := s.Present(req, []*T{item})
			if err != nil {
				return err
			}
			out.body = bodies[0]
			if s.Include != nil && (len(l.Include) > 0 || len(l.Fields) > 0) {
				out.included, err = s.Include(req, l, []*T{item})
			}
			return err
		})
		if err != nil {
			return err
		}
		if out.included != nil {
			return web.Answer(w, http.StatusOK, out, nil)
		}
		return web.Answer(w, http.StatusOK, out.body, nil)
	}
}

// MetadataPatcher handles PATCH of a resource whose metadata alone can be changed.
// Find checks whether the caller may change it.
func MetadataPatcher[T, B any, P actions.Described[T]](srv *Server, s Resource[T, B],
	find func(req *Request) (*T, error)) web.Handler {
	return Patcher(srv, s, find, func(tx platform.Tx, _ actions.Actor, item *T, patch *actions.MetadataPatch) error {
		return actions.UpdateMetadata(s.Repo(tx), P(item), patch)
	})
}

// Patcher is like MetadataPatcher, with an action that also records an audit event.
func Patcher[T, B any](srv *Server, s Resource[T, B], find func(req *Request) (*T, error),
	update func(platform.Tx, actions.Actor, *T, *actions.MetadataPatch) error,
) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body struct {
			Metadata *actions.MetadataPatch `json:"metadata"`
		}
		if err := web.DecodeStrict(r, &body); err != nil {
			return err
		}
		if s.MetadataOnly && body.Metadata == nil {
			return fault.Invalid("Metadata must be given: nothing else can be changed here")
		}
		return Answer(srv, w, r, s, http.StatusOK, func(req *Request) (*T, error) {
			item, err := find(req)
			if err != nil {
				return nil, err
			}
			return item, update(req.Tx, req.Caller.Actor(), item, body.Metadata)
		})
	}
}

// Only drops what find returns beside the resource.
func Only[T, U any](find func(req *Request) (*T, U, error)) func(req *Request) (*T, error) {
	return func(req *Request) (*T, error) {
		item, _, err := find(req)
		return item, err
	}
}
