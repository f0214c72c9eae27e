package platform

import (
	"strings"
	"testing"
)

func TestParsePorts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", " ": "", "none": "", "1024": "1024", "1024-1123": "1024-1123", " 2000 , 1024 - 1033": "1024-1033,2000",
		"1024-65535": "1024-65535",
	} {
		set, err := ParsePorts(text)
		if err != nil || set.String() != want {
			t.Errorf("ParsePorts(%q) = %s, %v, want %s", text, set, err, want)
		}
	}
	for text, want := range map[string]string{
		"x": "not a port", "80": "not between", "1024-70000": "not between", "1030-1024": "ends before",
		"1024-1030,1030-1040": "overlap", "1024,": "not a port", "-": "not a port",
	} {
		if _, err := ParsePorts(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParsePorts(%q): %v, want %q", text, err, want)
		}
	}
	set, _ := ParsePorts("1024-1026,2000")
	var all []int
	for i := range set.Count() {
		all = append(all, set.At(i))
	}
	if len(all) != 4 || all[0] != 1024 || all[2] != 1026 || all[3] != 2000 {
		t.Errorf("the ports are %v", all)
	}
	for port, want := range map[int]bool{1023: false, 1024: true, 1026: true, 1027: false, 2000: true, 0: false} {
		if set.Contains(port) != want {
			t.Errorf("Contains(%d) = %t, want %t", port, !want, want)
		}
	}
	if group := DefaultTCPGroup(nil); group.GUID != "" {
		t.Errorf("without ports there is the group %+v", group)
	}
}
