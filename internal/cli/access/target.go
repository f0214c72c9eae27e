package access

import (
	"bufio"
	"context"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/core"
)

// selectTarget targets the named org and space. For a name that is not given it
// uses the only one, or prompts when there are several.
func selectTarget(ctx context.Context, s *core.Session, in *bufio.Reader, org, space string) error {
	s.Config.Org, s.Config.Space = config.Named{}, config.Named{}
	to, err := pick(ctx, s, in, "Org", "/v3/organizations", org, nil)
	if err != nil || to.GUID == "" {
		return err
	}
	s.Config.Org = to
	s.Config.Space, err = pick(ctx, s, in, "Space", "/v3/spaces", space, url.Values{"organization_guids": {to.GUID}})
	return err
}

// maxChoices is the maximum number of names listed in a prompt.
const maxChoices = 50

// pick finds an org or a space by name, or prompts for one. An empty result is
// not an error: a user may have none yet, or skip the prompt.
func pick(ctx context.Context, s *core.Session, in *bufio.Reader, kind, path, name string,
	q url.Values) (config.Named, error) {
	if name != "" {
		t, err := core.Named[cfapi.Thing](ctx, s, kind, path, name, q)
		return config.Named{GUID: t.GUID, Name: t.Name}, err
	}
	query := url.Values{"order_by": {"name"}}
	maps.Copy(query, q)
	all, err := client.List[cfapi.Thing](ctx, s.API, path, query)
	if err != nil || len(all) == 0 {
		return config.Named{}, err
	}
	if len(all) == 1 {
		return config.Named{GUID: all[0].GUID, Name: all[0].Name}, nil
	}
	if !s.Env.InTerminal || s.JSON {
		return config.Named{}, nil
	}
	lower := strings.ToLower(kind)
	if len(all) > maxChoices {
		s.Errs.Printf("There are %d %ss. Type the name of one.", len(all), lower)
	} else {
		s.Errs.Printf("Select %s %s:", map[bool]string{true: "an", false: "a"}[kind == "Org"], lower)
		for i, t := range all {
			s.Errs.Printf("%d. %s", i+1, t.Name)
		}
	}
	for {
		answer, err := s.AskOptional(ctx, in, kind+" (enter to skip)")
		if err != nil || answer == "" {
			return config.Named{}, err
		}
		if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(all) && len(all) <= maxChoices {
			return config.Named{GUID: all[n-1].GUID, Name: all[n-1].Name}, nil
		}
		for _, t := range all {
			if t.Name == answer {
				return config.Named{GUID: t.GUID, Name: t.Name}, nil
			}
		}
		s.Errs.Printf("%s '%s' not found.", kind, answer)
	}
}
