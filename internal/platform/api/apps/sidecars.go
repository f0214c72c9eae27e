package apps

import (
	"maps"
	"net/http"
	"slices"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

var sidecars = rest.Resource[platform.Sidecar, sidecarBody]{
	Noun: "Sidecar", Repo: platform.Tx.Sidecars, Present: rest.Each(presentSidecar), List: listing.Params{NoLabels: true},
}

func (a *API) sidecarRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/apps/{guid}/sidecars", rest.Read, rest.ListerOf(a.Server, sidecars, platform.Tx.Apps,
		"App", "app_guid"))
	g.Handle(http.MethodPost, "/v3/apps/{guid}/sidecars", rest.Write, a.saveSidecar(http.StatusCreated, newSidecar))
	g.Handle(http.MethodGet, "/v3/processes/{guid}/sidecars", rest.Read, a.processSidecars)
	g.Handle(http.MethodGet, "/v3/sidecars/{guid}", rest.Read, sidecars.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/sidecars/{guid}", rest.Write, a.saveSidecar(http.StatusOK, sidecarFor))
	g.Handle(http.MethodDelete, "/v3/sidecars/{guid}", rest.Write, a.deleteSidecar)
}

// processSidecars lists the sidecars of a process.
func (a *API) processSidecars(w http.ResponseWriter, r *http.Request) error {
	return sidecars.ListerWhere(a.Server, func(req *rest.Request) ([]platform.Cond, error) {
		process, err := rest.Find(req.Caller, req.Tx.Processes(), web.Param(r, "guid"), "Process")
		if err != nil {
			return nil, err
		}
		all, _, err := req.Tx.Sidecars().List(platform.Where("app_guid", process.AppGUID))
		mine := slices.DeleteFunc(all, func(s *platform.Sidecar) bool {
			return !slices.Contains(s.ProcessTypes,
				process.Type)
		})
		return []platform.Cond{platform.InStrings("guid",
			rest.GUIDsOf(mine, func(s *platform.Sidecar) string { return s.GUID }))}, err
	})(w, r)
}

type sidecarRequest struct {
	Name         *string                        `json:"name"`
	Command      *string                        `json:"command"`
	ProcessTypes []string                       `json:"process_types"`
	MemoryMB     rest.Optional[rest.Whole[int]] `json:"memory_in_mb"` // null means not set
	// Options are replaced as a whole.
	Options *platform.SidecarOptions `json:"options"`
}

func (b *sidecarRequest) apply(s *platform.Sidecar) {
	web.Set(&s.Name, b.Name)
	web.Set(&s.Command, b.Command)
	if b.ProcessTypes != nil {
		s.ProcessTypes = slices.Clone(b.ProcessTypes)
	}
	if b.Options != nil {
		before := s.Options.Env
		s.Options = *b.Options
		s.Options.Env = maps.Clone(s.Options.Env) // the transaction may run again with the same request
		for name, value := range s.Options.Env {
			if old, had := before[name]; had && value == rest.Hidden {
				s.Options.Env[name] = old // what a client read is not what it wants
			}
		}
	}
	if b.MemoryMB.Set {
		s.MemoryMB = b.MemoryMB.Value.Value
		if b.MemoryMB.Given && s.MemoryMB == 0 {
			s.MemoryMB = -1 // rejected; 0 would mean that it is not set
		}
	}
}

// saveSidecar creates or changes the sidecar that find returns.
func (a *API) saveSidecar(
	status int, find func(*rest.Request) (*platform.Sidecar, *platform.App, error),
) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := rest.Body[sidecarRequest](r)
		if err != nil {
			return err
		}
		var warning string
		w = rest.Warned(w, &warning)
		return rest.Answer(a.Server, w, r, sidecars, status, func(req *rest.Request) (*platform.Sidecar, error) {
			s, app, err := find(req)
			if err != nil {
				return nil, err
			}
			body.apply(s)
			if warning, err = SidecarWarning(req.Tx, app.Lifecycle, s); err != nil {
				return nil, err
			}
			if s.GUID == "" {
				err = a.Platform.CreateSidecar(req.Tx, req.Caller.Actor(), app, s)
			} else {
				err = a.Platform.UpdateSidecar(req.Tx, req.Caller.Actor(), app, s, body.MemoryMB.Set || body.ProcessTypes != nil)
			}
			if err != nil {
				return nil, err
			}
			return s, a.Platform.SidecarsFit(req.Tx, app)
		})
	}
}

func newSidecar(req *rest.Request) (*platform.Sidecar, *platform.App, error) {
	app, err := req.App(platform.Develop)
	return &platform.Sidecar{}, app, err
}

// SidecarWarning warns of sidecars without memory beside a custom buildpack.
func SidecarWarning(tx platform.Tx, l platform.Lifecycle, sidecars ...*platform.Sidecar) (string, error) {
	if len(l.Buildpacks) == 0 {
		return "", nil // staging knows which one detects the app
	}
	installed, _, err := tx.Buildpacks().List(platform.Query{Order: "position"})
	if err != nil {
		return "", err
	}
	list := make([]platform.Sidecar, 0, len(sidecars))
	for _, s := range sidecars {
		list = append(list, *s)
	}
	return platform.SidecarWarning(l.Buildpacks, platform.CustomBuildpack(l.Buildpacks, l.Stack, installed), list), nil
}

var sidecarFor = rest.OfApp(sidecars, func(s *platform.Sidecar) string { return s.AppGUID }, platform.Develop)

func (a *API) deleteSidecar(w http.ResponseWriter, r *http.Request) error {
	return a.Perform(w, r, http.StatusNoContent, func(req *rest.Request) (any, error) {
		return rest.Acted(sidecarFor, a.Platform.DeleteSidecar)(req)
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

func presentSidecar(_ *rest.Request, s *platform.Sidecar) sidecarBody {
	b := sidecarBody{
		GUID: s.GUID, Name: s.Name, Command: s.Command, ProcessTypes: append([]string{}, s.ProcessTypes...), Origin: s.Origin,
		Relationships: map[string]any{"app": rest.ToOne(s.AppGUID)}, Created: rest.Timestamp(s.Created),
		Updated: rest.Timestamp(s.Updated),
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
		o.Env[name] = rest.Hidden // auditors may read sidecars
	}
	return &o
}
