package attach

import (
	"fmt"
	"mime"
	"slices"
	"strings"

	"ingot/internal/notify"
)

// deniedNames are the extensions of files that are refused whatever they contain, by the class that they are.
var deniedNames = classes(map[string]string{
	program: "ade adp apk app appx appxbundle bin class com cpl dll dmg drv ex ex_ exe gadget hta img inf " +
		"ins ipa iso isp jar jnlp lib lnk mde msc msi msix msixbundle msp mst nsh ocx out pif pkg prg " +
		"run scf scr sct shb so sys udl url vhd vhdx vmdk vxd war website workflow xbap xll chm hlp " +
		"diagcab appref-ms application deskthemepack theme desktop settingcontent-ms library-ms " +
		"search-ms searchconnector-ms",
	script: "bash bat cmd command csh fish js jse ksh mjs osx pl ps ps1 ps1xml ps2 psc1 psd1 psm1 py pyc " +
		"pyw rb reg sh tcsh vb vbe vbs ws wsc wsf wsh zsh applescript scpt action au3 php",
	archive: "7z ace alz ar arc arj bz bz2 cab cpio deb egg gz gzip lha lz lz4 lzh lzma r00 rar rpm s7z shar " +
		"sit sitx tar taz tbz tbz2 tgz tlz txz uue xar xz z zip zipx zst zpaq wim swm",
	page: "htm html mht mhtml shtml svg svgz swf xht xhtml xsl xslt",
	macros: "doc docm dot dotm mdb pot potm ppa ppam pps ppsm ppt pptm sldm wiz xla xlam xlm xls xlsb xlsm " +
		"xlt xltm xlw accdb accde one onepkg pub slk iqy vsd vsdm",
})

func classes(lists map[string]string) map[string]string {
	all := map[string]string{}
	for class, list := range lists {
		for _, name := range strings.Fields(list) {
			all[name] = class
		}
	}
	return all
}

// deniedTypes are declared types that are refused; those of known kinds are judged by their content.
var deniedTypes = map[string]string{
	"text/html": page, "application/xhtml+xml": page, "image/svg+xml": page, "text/xsl": page,
	"application/xslt+xml": page, "text/javascript": script, "application/javascript": script,
	"application/x-javascript": script, "application/ecmascript": script, "text/ecmascript": script,
	"application/x-sh": script, "application/x-httpd-php": script, "application/postscript": script,
	"application/zip": archive, "application/x-zip-compressed": archive, "application/gzip": archive,
	"application/x-gzip": archive, "application/x-tar": archive, "application/x-7z-compressed": archive,
	"application/vnd.rar": archive, "application/x-rar-compressed": archive, "application/x-bzip2": archive,
	"application/x-xz": archive, "application/zstd": archive, "application/java-archive": program,
	"application/x-msdownload": program, "application/x-msdos-program": program, "application/x-executable": program,
	"application/vnd.microsoft.portable-executable": program, "application/x-elf": program, "application/wasm": program,
	"application/vnd.android.package-archive": program, "application/x-ms-installer": program,
	"application/hta": program, "application/x-ms-shortcut": program, "application/msword": macros,
	"application/vnd.ms-excel": macros, "application/vnd.ms-powerpoint": macros,
}

// byExtension are the kinds of files with these extensions.
var byExtension = map[string]string{
	"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "jpe": "image/jpeg", "gif": "image/gif",
	"bmp": "image/bmp", "tif": "image/tiff", "tiff": "image/tiff", "webp": "image/webp", "avif": "image/avif",
	"heic": "image/heic", "heif": "image/heic", "pdf": "application/pdf", "mp3": "audio/mpeg", "flac": "audio/flac",
	"wav": "audio/wav", "m4a": "audio/mp4", "webm": "video/webm", "mp4": "video/mp4", "m4v": "video/mp4",
	"mov": "video/quicktime", "avi": "video/x-msvideo", "docx": wordDocument, "xlsx": spreadsheet, "pptx": presentation,
	"epub": epub, "odt": openDocument + "text", "ods": openDocument + "spreadsheet",
	"odp": openDocument + "presentation", "odg": openDocument + "graphics",
	"txt": plainText, "csv": plainText, "tsv": plainText, "json": plainText, "ics": plainText, "vcf": plainText,
	"md": plainText, "log": plainText, "xml": plainText, "yaml": plainText, "yml": plainText, "ndjson": plainText,
}

// textTypes are the types of texts by extension.
var textTypes = map[string]string{
	"csv": "text/csv", "tsv": "text/tab-separated-values", "json": "application/json", "ics": "text/calendar",
	"vcf": "text/vcard", "md": "text/markdown", "xml": "application/xml", "yaml": "application/yaml",
	"yml": "application/yaml", "ndjson": "application/x-ndjson",
}

// textual are types of application that are texts.
var textual = []string{
	"application/json", "application/xml", "application/yaml", "application/x-yaml", "application/x-ndjson",
	"application/rtf", "application/toml",
}

// known are the kinds that are known by their content.
var known = func() map[string]bool {
	all := map[string]bool{"application/ogg": true}
	for _, kind := range byExtension {
		all[kind] = kind != plainText
	}
	return all
}()

// sameKind are other names of types.
var sameKind = map[string]string{
	"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png", "image/x-ms-bmp": "image/bmp",
	"image/heif": "image/heic", "audio/mp3": "audio/mpeg", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav",
	"audio/x-m4a": "audio/mp4", "audio/x-flac": "audio/flac", "application/x-pdf": "application/pdf",
	"video/x-matroska": "video/webm", "audio/webm": "video/webm", "audio/ogg": "application/ogg",
	"video/ogg": "application/ogg", "video/avi": "video/x-msvideo",
}

// inlineTypes are images that mail programs show in a text.
var inlineTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// Check returns an attachment with a cleaned name and its type, without size and id, or why it is refused. kind is that
// of its content, as Sniff returns it; declared may be empty.
func Check(name, declared, inline, kind string) (a notify.Attachment, problem string) {
	a.Name = CleanName(name)
	if class := deniedNames[extension(a.Name)]; class != "" {
		return a, fmt.Sprintf("its name says that it is %s", class)
	}
	if a.Type, problem = typeOf(declared, extension(a.Name), kind); problem != "" {
		return a, problem
	}
	if want := byExtension[extension(a.Name)]; want != "" && want != kind && kind != unknown ||
		want != "" && want != kind && known[want] {
		return a, fmt.Sprintf("its name ends with .%s, but its content is %s", extension(a.Name), kind)
	}
	if a.Name == "" {
		a.Name = "attachment"
		if ends := endings[kind]; ends != "" {
			a.Name += "." + ends
		}
	}
	if inline == "" {
		return a, ""
	}
	a.Inline = inline
	switch {
	case !slices.Contains(inlineTypes, kind):
		return a, "only PNG, JPEG, GIF and WebP images can be inline"
	case !plainID(inline):
		return a, `"inline" is the name after "cid:" in the HTML: at most 64 of a-z, A-Z, 0-9, ".", "-" and "_"`
	}
	return a, ""
}

var endings = map[string]string{
	"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp", "application/pdf": "pdf",
	plainText: "txt",
}

// typeOf returns the type of a content, or why the declared one is refused.
func typeOf(declared, ending, kind string) (media, problem string) {
	own := kind
	if kind == plainText {
		own = plainText
		if of := textTypes[ending]; of != "" {
			own = of
		}
	}
	if declared == "" {
		return own, ""
	}
	media, _, err := mime.ParseMediaType(declared)
	if err != nil || len(media) > 100 || strings.Count(media, "/") != 1 {
		return "", `"type" must be a media type such as image/png`
	}
	if class := deniedTypes[media]; class != "" {
		return "", fmt.Sprintf("its type says that it is %s", class)
	}
	canonical := media
	if same := sameKind[media]; same != "" {
		canonical = same
	}
	wrong := fmt.Sprintf("its type is %s, but its content is %s", media, kind)
	top, _, _ := strings.Cut(media, "/")
	switch {
	case top == "multipart" || top == "message":
		return "", "messages and parts of them cannot be attached"
	case media == unknown:
		return own, ""
	case canonical == kind:
		return media, ""
	case top == "text" || slices.Contains(textual, media):
		if kind != plainText {
			return "", wrong
		}
	case known[canonical] || kind != plainText && kind != unknown || top == "image" && kind == plainText:
		return "", wrong
	}
	return media, ""
}

// plainID reports whether a name can be part of a Content-ID.
func plainID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
