package api

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
)

var stacks = resource[platform.Stack, stackBody]{
	noun: "Stack", repo: platform.Tx.Stacks, present: each(presentStack),
	list: listing.Params{Filters: listing.Filters{"names": listing.Text("name"), "default": listing.Flag("default")}, Orders: []string{"name"}},
}

func (a *API) stackRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/stacks", web.Scope(readers...), stacks.lister(a))
	g.Handle(http.MethodGet, "/v3/stacks/{guid}", web.Scope(readers...), stacks.getter(a))
	g.Handle(http.MethodPatch, "/v3/stacks/{guid}", web.Scope(scopeAdmin), a.updateStack)
	g.Handle(http.MethodGet, "/v3/stacks/{guid}/apps", web.Scope(readers...), apps.listerWhere(a, func(req *request) ([]platform.Cond, error) {
		s, err := find(req.caller, req.tx.Stacks(), web.Param(req.r, "guid"), "Stack")
		if err != nil {
			return nil, err
		}
		return []platform.Cond{platform.In("stack", s.Name)}, nil
	}))
	g.Handle(http.MethodPost, "/v3/stacks", web.Scope(scopeAdmin), a.createStack)
	g.Handle(http.MethodDelete, "/v3/stacks/{guid}", web.Scope(scopeAdmin), a.deleteStack)
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
	return answer(a, w, r, stacks, http.StatusCreated, func(req *request) (*platform.Stack, error) {
		s := &platform.Stack{Name: body.Name, Description: body.Description, State: body.State, StateReason: body.StateReason}
		if err := body.Metadata.Apply(&s.Metadata); err != nil {
			return nil, err
		}
		return s, a.platform.CreateStack(req.tx, req.caller.actor(), s)
	})
}

func (a *API) deleteStack(w http.ResponseWriter, r *http.Request) error {
	return a.perform(w, r, http.StatusNoContent, func(req *request) (any, error) {
		s, err := stacks.find(req)
		if err != nil {
			return nil, err
		}
		return nil, a.platform.DeleteStack(req.tx, req.caller.actor(), s)
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
	return answer(a, w, r, stacks, http.StatusOK, func(req *request) (*platform.Stack, error) {
		s, err := stacks.find(req)
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
		return s, a.platform.UpdateStack(req.tx, req.caller.actor(), s)
	})
}

type stackBody struct {
	resourceBody
	Name        string   `json:"name"`
	Description string   `json:"description"`
	State       string   `json:"state"`
	StateReason *string  `json:"state_reason"`
	RunImage    string   `json:"run_rootfs_image"`
	BuildImage  string   `json:"build_rootfs_image"`
	Default     bool     `json:"default"`
	Metadata    metadata `json:"metadata"`
	Links       links    `json:"links"`
}

func presentStack(req *request, s *platform.Stack) stackBody {
	return stackBody{
		resourceBody: presentResource(&s.Resource), Name: s.Name, Description: s.Description, State: string(s.State), StateReason: orNull(s.StateReason), RunImage: s.Name, BuildImage: s.Name,
		Default: s.Default, Metadata: presentMetadata(&s.Metadata), Links: links{"self": req.v3("/stacks/", escape(s.GUID))},
	}
}
