package rest

import (
	"fmt"
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

// Relation is a to-one relationship; its data is null if there is none.
type Relation struct {
	Data *RelationData `json:"data"`
}

// RelationData refers to a resource.
type RelationData struct {
	GUID string `json:"guid"`
}

// ToOne returns the relationship to a resource; without a guid there is none.
func ToOne(guid string) Relation {
	if guid == "" {
		return Relation{}
	}
	return Relation{&RelationData{GUID: guid}}
}

// Relations is a to-many relationship.
type Relations struct {
	Data []RelationData `json:"data"`
}

// ToMany returns the relationship to resources.
func ToMany(guids []string) Relations {
	out := Relations{Data: []RelationData{}}
	for _, g := range guids {
		out.Data = append(out.Data, RelationData{GUID: g})
	}
	return out
}

// Relationship presents the to-many relationship of the path.
func (req *Request) Relationship(guids []string) map[string]any {
	return map[string]any{"data": ToMany(guids).Data, "links": Links{"self": Href(req.Base, req.HTTP.URL.Path)}}
}

// ReadRelation decodes a to-one relationship, which may be null but not absent. The
// guid may be null too, which clients send to remove the relationship.
func ReadRelation(r *http.Request) (guid string, err error) {
	var body struct {
		Data Optional[struct {
			GUID Optional[string] `json:"guid"`
		}] `json:"data"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return "", err
	}
	id := body.Data.Value.GUID
	if !body.Data.Set || body.Data.Given && !id.Set || id.Given && id.Value == "" {
		return "", fault.Invalid("Data must be structured like this: \"data\": {\"guid\": \"valid-guid\"}")
	}
	return id.Value, nil
}

// ReadRelations decodes a to-many relationship, which must not be empty.
var ReadRelations = RelationsOr(
	"Data must be structured like this: \"data\": [{\"guid\": \"valid-guid\"},{\"guid\": \"valid-guid\"}]")

// RelationsOr is like ReadRelations, with the problem that an empty relationship is.
func RelationsOr(problem string) func(*http.Request) (*Relations, error) {
	return func(r *http.Request) (*Relations, error) {
		body, err := Body[Relations](r)
		if err == nil && len(body.Data) == 0 {
			err = fault.Invalid(problem)
		}
		return body, err
	}
}

// Related returns the resources of a relationship. It is an error if the caller may
// not see one of them.
func Related[T any](req *Request, repo platform.Repo[T], to *Relations, noun string) ([]*T, error) {
	if to == nil {
		return nil, nil
	}
	var out []*T
	var unknown []string
	for _, one := range to.Data {
		found, err := Find(req.Caller, repo, one.GUID, noun)
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
		return nil, fault.Invalid(fmt.Sprintf("%s with guids %q do not exist, or you do not have access to them.",
			noun, unknown))
	}
	return out, nil
}

// AppliedTo filters resources by the organizations or spaces they are applied to, as far
// as the caller may see these: the filter must not reveal resources of others.
func AppliedTo[T, B any](places Resource[T, B], parameter, field string) func(*Request) ([]platform.Cond, error) {
	return func(req *Request) ([]platform.Cond, error) {
		asked := req.HTTP.URL.Query()
		if !asked.Has(parameter) {
			return nil, nil
		}
		found, _, err := places.Repo(req.Tx).
			List(platform.Query{Reader: req.Caller.Reader(),
				Where: []platform.Cond{platform.InStrings("guid", listing.SplitValues(asked.Get(parameter)))}})
		guids := GUIDsOf(found, func(place *T) string {
			return any(place).(interface{ Base() *platform.Resource }).
				Base().GUID
		})
		return []platform.Cond{platform.InStrings(field, guids)}, err
	}
}
