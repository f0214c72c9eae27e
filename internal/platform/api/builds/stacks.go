package builds

import (
	"cmp"
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
	g.Handle(http.MethodPatch, "/v3/stacks/{guid}", rest.Admin,
		rest.Updater(a.Server, stacks, rest.Applied(stacks.Find, (*stackChange).apply, a.Platform.UpdateStack)))
	g.Handle(http.MethodGet, "/v3/stacks/{guid}/apps", rest.Read,
		apps.Apps.ListerWhere(a.Server, func(req *rest.Request) ([]platform.Cond, error) {
			s, err := stacks.Find(req)
			if err != nil {
				return nil, err
			}
			return []platform.Cond{platform.In("stack", s.Name)}, nil
		}))
	g.Handle(http.MethodPost, "/v3/stacks", rest.Admin,
		rest.Creator(a.Server, stacks,
			rest.Applied(rest.New(platform.Stack{}), (*stackRequest).apply, a.Platform.CreateStack)))
	g.Handle(http.MethodDelete, "/v3/stacks/{guid}", rest.Admin,
		rest.Remover(a.Server, stacks.Find, rest.By(a.Platform.DeleteStack)))
}

type stackRequest struct {
	Name        string                 `json:"name"`
	Description string                 `json:"description"`
	State       platform.StackState    `json:"state"`
	StateReason string                 `json:"state_reason"`
	Metadata    *actions.MetadataPatch `json:"metadata"`
}

func (b *stackRequest) apply(s *platform.Stack) error {
	s.Name, s.Description, s.StateReason = b.Name, b.Description, b.StateReason
	s.State = cmp.Or(b.State, platform.StackActive)
	return b.Metadata.Apply(&s.Metadata)
}

// stackChange has what can be changed.
type stackChange struct {
	State       *platform.StackState   `json:"state"`
	StateReason *string                `json:"state_reason"`
	Metadata    *actions.MetadataPatch `json:"metadata"`
}

func (b *stackChange) apply(s *platform.Stack) error {
	web.Set(&s.State, b.State)
	web.Set(&s.StateReason, b.StateReason)
	return b.Metadata.Apply(&s.Metadata)
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
