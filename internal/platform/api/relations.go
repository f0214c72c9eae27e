package api

import (
	"fmt"
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

// relation is a to-one relationship; its data is null if there is none.
type relation struct {
	Data *relationData `json:"data"`
}

type relationData struct {
	GUID string `json:"guid"`
}

func toOne(guid string) relation {
	if guid == "" {
		return relation{}
	}
	return relation{&relationData{guid}}
}

// relations is a to-many relationship.
type relations struct {
	Data []relationData `json:"data"`
}

func toMany(guids []string) relations {
	out := relations{Data: []relationData{}}
	for _, g := range guids {
		out.Data = append(out.Data, relationData{g})
	}
	return out
}

// readRelation decodes a to-one relationship, which may be null but not absent. The
// guid may be null too, which clients send to remove the relationship.
func readRelation(r *http.Request) (guid string, err error) {
	var body struct {
		Data optional[struct {
			GUID optional[string] `json:"guid"`
		}] `json:"data"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return "", err
	}
	id := body.Data.value.GUID
	if !body.Data.set || body.Data.given && !id.set || id.given && id.value == "" {
		return "", fault.Invalid("Data must be structured like this: \"data\": {\"guid\": \"valid-guid\"}")
	}
	return id.value, nil
}

// readRelations decodes a to-many relationship, which must not be empty.
func readRelations(r *http.Request) (*relations, error) {
	var body relations
	if err := web.DecodeStrict(r, &body); err != nil {
		return nil, err
	}
	if len(body.Data) == 0 {
		return nil, fault.Invalid("Data must be structured like this: \"data\": [{\"guid\": \"valid-guid\"},{\"guid\": \"valid-guid\"}]")
	}
	return &body, nil
}

// related returns the resources of a relationship. It is an error if the caller may
// not see one of them.
func related[T any](req *request, repo platform.Repo[T], to *relations, noun string) ([]*T, error) {
	if to == nil {
		return nil, nil
	}
	var out []*T
	var unknown []string
	for _, one := range to.Data {
		found, err := find(req.caller, repo, one.GUID, noun)
		switch {
		case fault.Is(err, fault.NotFound):
			unknown = append(unknown, one.GUID)
		case err != nil:
			return nil, err
		default:
			out = append(out, found)
		}
	}
	if len(unknown) > 0 {
		return nil, fault.Invalid(fmt.Sprintf("%s with guids %q do not exist, or you do not have access to them.", noun, unknown))
	}
	return out, nil
}

// appliedTo filters quotas by the organizations or spaces they are applied to, as far
// as the caller may see these: the filter must not reveal quotas of others.
func appliedTo[T, B any](places resource[T, B], parameter, field string) func(*request) ([]platform.Cond, error) {
	return func(req *request) ([]platform.Cond, error) {
		asked := req.r.URL.Query()
		if !asked.Has(parameter) {
			return nil, nil
		}
		found, _, err := places.repo(req.tx).List(platform.Query{Reader: req.caller.Reader(), Where: []platform.Cond{platform.InStrings("guid", listing.SplitValues(asked.Get(parameter)))}})
		guids := guidsOf(found, func(place *T) string { return any(place).(interface{ Base() *platform.Resource }).Base().GUID })
		return []platform.Cond{platform.InStrings(field, guids)}, err
	}
}
