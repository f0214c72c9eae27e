package builds

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/apps"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

var stacks = rest.Resource[platform.Stack, stackBody]{
	Noun: "Stack", Repo: platform.Tx.Stacks, Present: rest.Each(presentStack),
	List: listing.Params{Filters: listing.Filters{"names": listing.Text("name"), "default": listing.Flag("default")},
		Orders: []string{"name"}},
}

func (a *API) stackRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/stacks", rest.Read, stacks.Lister(a.Server))
	g.Handle(http.MethodGet, "/v3/stacks/{guid}", rest.Read, stacks.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/stacks/{guid}", rest.Admin, a.updateStack)
	g.Handle(http.MethodGet, "/v3/stacks/{guid}/apps", rest.Read,
		apps.Apps.ListerWhere(a.Server, func(req *rest.Request) ([]platform.Cond, error) {
			s, err := stacks.Find(req)
			if err != nil {
				return nil, err
			}
			return []platform.Cond{platform.In("stack", s.Name)}, nil
		}))
	g.Handle(http.MethodPost, "/v3/stacks", rest.Admin, a.createStack)
	g.Handle(http.MethodDelete, "/v3/stacks/{guid}", rest.Admin, a.deleteStack)
}

func (a *API) createStack(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Name        string                 `json:"name"`
		Description string                 `json:"description"`
		State       platform.StackState    `json:"state"`
		StateReason string                 `json:"state_reason"`
		Metadata    *actions.MetadataPatch `json:"metadata"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.State == "" {
		body.State = platform.StackActive
	}
	return rest.Answer(a.Server, w, r, stacks, http.StatusCreated, func(req *rest.Request) (*platform.Stack, error) {
		s := &platform.Stack{Name: body.Name, Description: body.Description, State: body.State, StateReason: body.StateReason}
		if err := body.Metadata.Apply(&s.Metadata); err != nil {
			return nil, err
		}
		return s, a.Platform.CreateStack(req.Tx, req.Caller.Actor(), s)
	})
}

func (a *API) deleteStack(w http.ResponseWriter, r *http.Request) error {
	return a.Perform(w, r, http.StatusNoContent, func(req *rest.Request) (any, error) {
		s, err := stacks.Find(req)
		if err != nil {
			return nil, err
		}
		return nil, a.Platform.DeleteStack(req.Tx, req.Caller.Actor(), s)
	})
}

func (a *API) updateStack(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		State       *platform.StackState   `json:"state"`
		StateReason *string                `json:"state_reason"`
		Metadata    *actions.MetadataPatch `json:"metadata"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return rest.Answer(a.Server, w, r, stacks, http.StatusOK, func(req *rest.Request) (*platform.Stack, error) {
		s, err := stacks.Find(req)
		if err != nil {
			return nil, err
		}
		if body.State != nil {
			s.State = *body.State
		}
		if body.StateReason != nil {
			s.StateReason = *body.StateReason
		}
		if err := body.Metadata.Apply(&s.Metadata); err != nil {
			return nil, err
		}
		return s, a.Platform.UpdateStack(req.Tx, req.Caller.Actor(), s)
	})
}

type stackBody struct {
	rest.ResourceBody
	Name        string        `json:"name"`
	Description string        `json:"description"`
	State       string        `json:"state"`
	StateReason *string       `json:"state_reason"`
	RunImage    string        `json:"run_rootfs_image"`
	BuildImage  string        `json:"build_rootfs_image"`
	Default     bool          `json:"default"`
	Metadata    rest.Metadata `json:"metadata"`
	Links       rest.Links    `json:"links"`
}

func presentStack(req *rest.Request, s *platform.Stack) stackBody {
	return stackBody{
		ResourceBody: rest.PresentResource(&s.Resource), Name: s.Name, Description: s.Description, State: string(s.State),
		StateReason: rest.OrNull(s.StateReason), RunImage: s.Name, BuildImage: s.Name,
		Default: s.Default, Metadata: rest.PresentMetadata(&s.Metadata),
		Links: rest.Links{"self": req.Link("/stacks/", rest.Escape(s.GUID))},
	}
}
