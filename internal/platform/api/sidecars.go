package api

import (
	"maps"
	"net/http"
	"slices"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

var sidecars = resource[platform.Sidecar, sidecarBody]{
	noun: "Sidecar", repo: platform.Tx.Sidecars, present: each(presentSidecar), list: listing.Params{NoLabels: true},
}

func (a *API) sidecarRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/sidecars", read, listerOf(a, sidecars, platform.Tx.Apps, "App", "app_guid"))
	g.Handle(http.MethodPost, "/v3/apps/{guid}/sidecars", write, a.createSidecar)
	g.Handle(http.MethodGet, "/v3/processes/{guid}/sidecars", read, a.processSidecars)
	g.Handle(http.MethodGet, "/v3/sidecars/{guid}", read, sidecars.getter(a))
	g.Handle(http.MethodPatch, "/v3/sidecars/{guid}", write, a.updateSidecar)
	g.Handle(http.MethodDelete, "/v3/sidecars/{guid}", write, a.deleteSidecar)
}

// processSidecars lists the sidecars of a process.
func (a *API) processSidecars(w http.ResponseWriter, r *http.Request) error {
	return sidecars.listerWhere(a, func(req *request) ([]platform.Cond, error) {
		process, err := find(req.caller, req.tx.Processes(), web.Param(r, "guid"), "Process")
		if err != nil {
			return nil, err
		}
		all, _, err := req.tx.Sidecars().List(platform.Where("app_guid", process.AppGUID))
		mine := slices.DeleteFunc(all, func(s *platform.Sidecar) bool { return !slices.Contains(s.ProcessTypes, process.Type) })
		return []platform.Cond{platform.InStrings("guid", guidsOf(mine, func(s *platform.Sidecar) string { return s.GUID }))}, err
	})(w, r)
}

type sidecarRequest struct {
	Name         *string              `json:"name"`
	Command      *string              `json:"command"`
	ProcessTypes []string             `json:"process_types"`
	MemoryMB     optional[whole[int]] `json:"memory_in_mb"` // null means not set
	// Options are replaced as a whole.
	Options *platform.SidecarOptions `json:"options"`
}

func (b *sidecarRequest) apply(s *platform.Sidecar) {
	if b.Name != nil {
		s.Name = *b.Name
	}
	if b.Command != nil {
		s.Command = *b.Command
	}
	if b.ProcessTypes != nil {
		s.ProcessTypes = slices.Clone(b.ProcessTypes)
	}
	if b.Options != nil {
		before := s.Options.Env
		s.Options = *b.Options
		for name, value := range s.Options.Env {
			if old, had := before[name]; had && value == hidden {
				s.Options.Env[name] = old // what a client read is not what it wants
			}
		}
	}
	if b.MemoryMB.set {
		s.MemoryMB = b.MemoryMB.value.value
		if b.MemoryMB.given && s.MemoryMB == 0 {
			s.MemoryMB = -1 // rejected; 0 would mean that it is not set
		}
	}
}

func (a *API) createSidecar(w http.ResponseWriter, r *http.Request) error {
	var body sidecarRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	var warning string
	return answer(a, warned{w, &warning}, r, sidecars, http.StatusCreated, func(req *request) (*platform.Sidecar, error) {
		app, err := req.app(platform.Develop)
		if err != nil {
			return nil, err
		}
		s := &platform.Sidecar{}
		body.apply(s)
		if warning, err = sidecarWarning(req.tx, app.Lifecycle, []platform.Sidecar{*s}); err != nil {
			return nil, err
		}
		if err := a.platform.CreateSidecar(req.tx, req.caller.actor(), app, s); err != nil {
			return nil, err
		}
		return s, a.platform.SidecarsFit(req.tx, app)
	})
}

// sidecarWarning warns of sidecars without memory beside a custom buildpack.
func sidecarWarning(tx platform.Tx, l platform.Lifecycle, sidecars []platform.Sidecar) (string, error) {
	if len(l.Buildpacks) == 0 {
		return "", nil // staging knows which one detects the app
	}
	installed, _, err := tx.Buildpacks().List(platform.Query{Order: "position"})
	if err != nil {
		return "", err
	}
	return platform.SidecarWarning(l.Buildpacks, platform.CustomBuildpack(l.Buildpacks, l.Stack, installed), sidecars), nil
}

func (a *API) sidecarFor(req *request) (*platform.Sidecar, *platform.App, error) {
	s, err := find(req.caller, req.tx.Sidecars(), web.Param(req.r, "guid"), "Sidecar")
	if err != nil {
		return nil, nil, err
	}
	app, err := req.appNamed(s.AppGUID, platform.Develop)
	return s, app, err
}

func (a *API) updateSidecar(w http.ResponseWriter, r *http.Request) error {
	var body sidecarRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	var warning string
	return answer(a, warned{w, &warning}, r, sidecars, http.StatusOK, func(req *request) (*platform.Sidecar, error) {
		s, app, err := a.sidecarFor(req)
		if err != nil {
			return nil, err
		}
		body.apply(s)
		if warning, err = sidecarWarning(req.tx, app.Lifecycle, []platform.Sidecar{*s}); err != nil {
			return nil, err
		}
		if err := a.platform.UpdateSidecar(req.tx, req.caller.actor(), app, s, body.MemoryMB.set || body.ProcessTypes != nil); err != nil {
			return nil, err
		}
		return s, a.platform.SidecarsFit(req.tx, app)
	})
}

func (a *API) deleteSidecar(w http.ResponseWriter, r *http.Request) error {
	return a.perform(w, r, http.StatusNoContent, func(req *request) (any, error) {
		s, app, err := a.sidecarFor(req)
		if err != nil {
			return nil, err
		}
		return nil, a.platform.DeleteSidecar(req.tx, req.caller.actor(), app, s)
	})
}

type sidecarBody struct {
	GUID         string   `json:"guid"`
	Name         string   `json:"name"`
	Command      string   `json:"command"`
	ProcessTypes []string `json:"process_types"`
	MemoryMB     *int     `json:"memory_in_mb"`
	Origin       string   `json:"origin"`
	// Options exist only if the sidecar has any: they are not part of Cloud Foundry.
	Options       *platform.SidecarOptions `json:"options,omitempty"`
	Relationships map[string]any           `json:"relationships"`
	Created       string                   `json:"created_at"`
	Updated       string                   `json:"updated_at"`
}

func presentSidecar(_ *request, s *platform.Sidecar) sidecarBody {
	b := sidecarBody{
		GUID: s.GUID, Name: s.Name, Command: s.Command, ProcessTypes: append([]string{}, s.ProcessTypes...), Origin: s.Origin,
		Relationships: map[string]any{"app": toOne(s.AppGUID)}, Created: timestamp(s.Created), Updated: timestamp(s.Updated),
	}
	slices.Sort(b.ProcessTypes)
	b.Options = presentOptions(s.Options)
	if s.MemoryMB > 0 {
		b.MemoryMB = &s.MemoryMB
	}
	return b
}

// presentOptions returns the options without the values of variables, or nil if there are
// none.
func presentOptions(o platform.SidecarOptions) *platform.SidecarOptions {
	if o.IsZero() {
		return nil
	}
	o.Env = maps.Clone(o.Env)
	for name := range o.Env {
		o.Env[name] = hidden // auditors may read sidecars
	}
	return &o
}
