package httpext_test

import (
	"strings"
	"testing"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	order := template(t, w, c, `{"name":"Order","text":"one\ntwo\nthree","html":"<p>o</p>"}`)
	path := "/templates/" + order
	before := w.Expect(1, c, "GET", path, "", 200, "").Body
	w.Expect(1, c, "PUT", path, `{"name":"Order","text":"one\n2\nthree","html":"<p>o</p>"}`, 204, "")
	w.Expect(2, c, "PUT", path+"/variants/de", `{"text":"eins"}`, 204, "")
	list := func(want ...string) {
		t.Helper()
		var got struct {
			Versions []struct {
				Version   int64
				Current   bool
				ChangedBy string `json:"changed_by"`
			}
		}
		w.Expect(1, c, "GET", path+"/versions", "", 200, "").Into(&got)
		if len(got.Versions) != len(want) || !got.Versions[0].Current || got.Versions[len(want)-1].Current {
			t.Fatalf("versions: %+v, want %v", got, want)
		}
		for i, v := range got.Versions {
			if v.ChangedBy != want[i] {
				t.Errorf("version %d is of %s, want %s", v.Version, v.ChangedBy, want[i])
			}
		}
	}
	list("shop", "shop", "shop")
	if a := w.Expect(1, c, "GET", path+"/versions/2/difference", "", 200, ""); a.Body !=
		`{"from":1,"parts":[{"part":"text","locale":"","lines":[" one","-two","+2"," three"]}],"to":2}`+"\n" {
		t.Error(a.Body)
	}
	if a := w.Expect(2, c, "GET", path+"/versions/3/difference?from=1", "", 200, ""); !strings.Contains(a.Body,
		`{"part":"text","locale":"de","lines":["+eins"]}`) {
		t.Error(a.Body)
	}
	if a := w.Expect(1, c, "GET", path+"/versions/1", "", 200, ""); !strings.Contains(a.Body, `"text":"one\ntwo\nthree"`) {
		t.Error(a.Body)
	}
	w.Expect(1, c, "GET", path+"/versions/9", "", 404, "")
	w.Expect(1, c, "GET", path+"/versions/x", "", 404, "")
	w.Expect(1, c, "GET", path+"/versions/1/difference", "", 404, "")
	w.Expect(1, c, "GET", path+"/versions/2/difference?to=1", "", 400, "")
	w.Expect(1, c, "POST", path+"/rollback", `{"version":9}`, 404, "")
	w.Expect(1, c, "POST", path+"/rollback", `{"version":"x"}`, 422, "")
	w.Expect(1, c, "POST", path+"/rollback", `{"version":1}`, 200, "")
	if after := w.Expect(1, c, "GET", path, "", 200, "").Body; after != before {
		t.Errorf("after the rollback it is %s, want %s", after, before)
	}
	w.Expect(1, c, "POST", path+"/rollback", `{"version":4}`, 200, "") // the current one
	list("shop", "shop", "shop", "shop")

	stranger := w.Client("stranger", "notification_templates.write", "notification_templates.read")
	w.Expect(1, stranger, "POST", path+"/rollback", `{"version":1}`, 403, "")
	w.Expect(1, w.Client("shop", "notification_templates.read"), "POST", path+"/rollback", `{"version":1}`, 403, "")
	w.Expect(1, stranger, "GET", "/templates/none/versions", "", 404, "")
	var v2 struct{ ID string }
	w.Expect(2, c, "POST", "/templates", `{"name":"t","text":"t"}`, 201, "").Into(&v2)
	w.Expect(2, stranger, "GET", "/templates/"+v2.ID+"/versions", "", 404, "")

	// A version whose partial is gone cannot be used.
	w.Expect(1, c, "PUT", "/partials/footer", `{"text":"bye"}`, 204, "")
	w.Expect(2, c, "PUT", "/templates/"+v2.ID, `{"text":"{{template \"footer\"}}"}`, 200, "")
	w.Expect(2, c, "PUT", "/templates/"+v2.ID, `{"text":"plain"}`, 200, "")
	w.Expect(1, c, "DELETE", "/partials/footer", "", 204, "")
	w.Expect(2, c, "POST", "/templates/"+v2.ID+"/rollback", `{"version":2}`, 422, "")
}
