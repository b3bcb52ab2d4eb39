"""Looks at every page of a console in Chromium: the rules of WCAG 2.2 AA by axe, the console's own rules, and what forms do.

Arguments: the address, an admin key of the app shop, and a folder for profiles.
"""

import contextlib
import http.client
import pathlib
import sys
import time
import urllib.parse

import axe_core_python
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

ADDRESS, KEY, SCRATCH = sys.argv[1:4]
APP = "shop"
AXE = next(pathlib.Path(axe_core_python.__file__).parent.rglob("axe.min.js")).read_text()
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PAGES = ["", "sends", "compose", "devices", "topics", "routes", "dead-letters", "quarantine", "audit"]


def browser(name, script=True):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900", "--hide-scrollbars",
                     "--disable-dev-shm-usage", f"--user-data-dir={SCRATCH}/{name}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if not script:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    driver.set_page_load_timeout(60)
    return driver


def scheme(driver, value):
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": value}]})


def check(driver, name):
    """Fails if the page breaks a rule, or the browser complains about it."""
    driver.execute_script(AXE)
    found = driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {runOnly: {type: 'tag', values: arguments[0]}}).then(done, (e) => done({violations: [{id: String(e), nodes: []}]}));",
        RULES)
    broken = [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"] or [{"html": ""}]]
    assert not broken, f"{name}: " + "\n".join(broken)
    assert found.get("passes"), f"{name}: nothing was checked"
    complaints = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE" and "status of 4" not in entry["message"]]
    assert not complaints, f"{name}: {complaints}"
    width = driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0, f"{name}: the page is {width} pixels too wide"


def wait(driver, condition, what):
    """Returns what the condition gives, once that is something."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        # While a click or an update replaces a page, it may lack an element, or have lost one that was found before.
        with contextlib.suppress(NoSuchElementException, StaleElementReferenceException):
            if found := condition():
                return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: {driver.current_url}: {driver.find_element(By.TAG_NAME, 'main').text[:1000]}")


def text(driver, selector="main"):
    return wait(driver, lambda: driver.find_element(By.CSS_SELECTOR, selector).text, selector)


def path(page):
    return f"{ADDRESS}/apps/{APP}/{page}" if page else f"{ADDRESS}/"


def main():
    check_answers()
    driver = browser("main")
    try:
        for page in PAGES:
            driver.get(path(page))
            check(driver, f"{page or 'overview'}, not signed in")
            assert not driver.find_elements(By.CSS_SELECTOR, "button.danger"), f"{page} lets a stranger act"
        # A stranger's form does nothing.
        driver.get(path("sends"))
        first = driver.find_element(By.CSS_SELECTOR, "#live a[id]").get_attribute("href")
        status = driver.execute_async_script(
            "const done = arguments[1]; fetch(arguments[0], {method: 'POST', body: new URLSearchParams({action: 'cancel'})}).then((r) => done(r.url));", first)
        assert "/sign-in" in status, status

        driver.get(f"{ADDRESS}/sign-in?next=/apps/{APP}/sends")
        check(driver, "sign-in")
        driver.find_element(By.NAME, "key").send_keys("apus_wrong")
        driver.find_element(By.CSS_SELECTOR, "main button").click()
        wait(driver, lambda: "not valid" in driver.find_element(By.TAG_NAME, "h1").text, "a wrong key is refused")
        check(driver, "a wrong key")
        sign_in(driver)
        assert "/sends" in driver.current_url, driver.current_url
        cookie = driver.get_cookie("apus_console")
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict", cookie

        # Nobody else's link puts words into the console's mouth.
        driver.get(path("sends?done=Your+key+has+expired"))
        assert not driver.find_elements(By.CSS_SELECTOR, ".notice") and "expired" not in text(driver)

        for page in PAGES:
            for colours in ("dark", "light"):
                scheme(driver, colours)
                driver.get(path(page))
                if page in ("", "sends"):
                    wait(driver, lambda: driver.find_elements(By.CSS_SELECTOR, ".updates"), "updates can be paused")
                check(driver, f"{page or 'overview'}, {colours}")
        driver.get(path("sends"))
        driver.execute_script("document.documentElement.dir = 'rtl'")
        check(driver, "sends, right to left")
        driver.set_window_size(400, 800)
        driver.get(path("sends"))
        check(driver, "sends, on a phone")
        driver.set_window_size(1280, 900)

        driver.get(first)
        check(driver, "a send")
        driver.get(path("devices?device=phone-3"))
        check(driver, "a device")
        check_live(driver, first)
        check_keys(driver, first)
        driver.get(first)
        page = driver.page_source
        assert "<b>Sale</b>" not in page, "text of a notification became markup"
        press(driver, "Pause")
        wait(driver, lambda: "paused" in driver.find_element(By.CSS_SELECTOR, ".notice").text, "the send is paused")
        press(driver, "Cancel for good")
        asked(driver, "Cancel news-59 for good?", "280 of 1,000 recipients have not been reached")
        check(driver, "a question")
        press(driver, "Cancel for good")
        wait(driver, lambda: "cancelled" in driver.find_element(By.CSS_SELECTOR, ".notice").text, "the send is cancelled")
        # A form of another session does nothing.
        status = driver.execute_async_script(
            "const done = arguments[1]; fetch(arguments[0], {method: 'POST', body: new URLSearchParams({action: 'pause', form_token: 'x'})}).then((r) => done(r.status));", first)
        assert status == 403, status

        act(driver)

        driver.get(path("compose"))
        Select(driver.find_element(By.ID, "audience")).select_by_value("topic")
        driver.find_element(By.ID, "names").send_keys("news")
        driver.find_element(By.ID, "title").send_keys("<b>Hello</b>")
        press(driver, "Preview")
        wait(driver, lambda: driver.find_elements(By.CSS_SELECTOR, ".result .shown"), "a preview is shown")
        check(driver, "preview")
        assert "<b>Hello</b>" in driver.find_element(By.CSS_SELECTOR, ".shown .headline").text
        press(driver, "Send")
        asked(driver, "Send it to topic news?", "cannot be taken back")
        check(driver, "a question before a send")
        press(driver, "Change it")
        wait(driver, lambda: driver.find_elements(By.ID, "title"), "the form is shown again")
        assert driver.find_element(By.ID, "title").get_attribute("value") == "<b>Hello</b>"
    finally:
        driver.quit()

    driver = browser("plain", script=False)
    try:
        for page in PAGES:
            driver.get(path(page))
            assert driver.find_elements(By.TAG_NAME, "h1"), page
            assert not driver.find_elements(By.CSS_SELECTOR, ".updates"), f"{page}: script ran"
        driver.get(path("sends"))
        assert len(driver.find_elements(By.CSS_SELECTOR, "#live > .scroll tbody tr")) == 50
        # The list has no small sends; the last of them are below it.
        assert [each.text for each in driver.find_elements(By.CSS_SELECTOR, "#live section tbody th")] == ["code-for-ada"]
        follow(driver, "Older")
        wait(driver, lambda: len(driver.find_elements(By.CSS_SELECTOR, "tbody tr")) == 10, "older sends are on the next page")
        driver.get(path("sends?search=phone-3"))
        follow(driver, "a device")
        wait(driver, lambda: "phone-3" in driver.find_element(By.CSS_SELECTOR, "section h2").text, "a device is looked for instead")
        sign_in(driver)
        driver.get(path("sends/news-58"))
        press(driver, "Cancel for good")
        asked(driver, "Cancel news-58 for good?", "Nothing has been done yet.")
        follow(driver, "Go back")
        on(driver, "news-58")
        assert driver.find_elements(By.CSS_SELECTOR, ".badge.active"), "a send was cancelled before the answer"
        press(driver, "Cancel for good")
        asked(driver, "Cancel news-58 for good?", "280 of 1,000")
        press(driver, "Cancel for good")
        wait(driver, lambda: "cancelled" in driver.find_element(By.CSS_SELECTOR, ".notice").text, "the send is cancelled without script")
    finally:
        driver.quit()
    print("all pages passed")


def check_live(driver, send):
    """Pauses a send in another tab: the list of this one tells it without being loaded again, unless updates are paused."""
    name = send.rsplit("/", 1)[1]
    row = f"//tr[.//a[@id][contains(@href, '/{name}')]]"

    def shows(word):
        return lambda: word in driver.find_element(By.XPATH, row).text

    driver.get(path("sends"))
    driver.execute_script("window.isSame = true")
    wait(driver, lambda: not shows("paused")(), "the send is not paused yet")
    here = driver.current_window_handle
    driver.switch_to.new_window("tab")
    there = driver.current_window_handle
    driver.get(send)
    press(driver, "Pause")
    wait(driver, lambda: "paused" in driver.find_element(By.CSS_SELECTOR, ".notice").text, "the send is paused")
    driver.switch_to.window(here)
    wait(driver, shows("paused"), "the list tells that the send is paused")
    follow_button = driver.find_element(By.CSS_SELECTOR, ".updates")
    follow_button.click()
    assert follow_button.text == "Resume updates", follow_button.text
    driver.switch_to.window(there)
    press(driver, "Resume")
    wait(driver, lambda: driver.find_elements(By.XPATH, "//button[normalize-space()='Pause']"), "the send goes on")
    driver.close()
    driver.switch_to.window(here)
    assert shows("paused")(), "the list changed although its updates are paused"
    follow_button.click()
    wait(driver, lambda: not shows("paused")(), "the list tells that the send goes on")
    assert driver.execute_script("return window.isSame === true"), "the page was loaded again"


def check_keys(driver, send):
    """Walks through the list by keyboard: whatever has the focus shows it, the way past the menu is the first stop, and Enter opens a send."""
    driver.get(path("sends"))
    name = send.rsplit("/", 1)[1]
    stops = []
    for _ in range(60):
        ActionChains(driver).send_keys(Keys.TAB).perform()
        stop = driver.switch_to.active_element
        style = driver.execute_script("const s = getComputedStyle(arguments[0]); return s.outlineStyle + ' ' + s.outlineWidth", stop)
        assert not style.startswith("none") and not style.endswith(" 0px"), f"the focus does not show on {stop.get_attribute('outerHTML')[:200]}"
        stops.append(stop.get_attribute("href") or stop.text)
        if stops[-1].endswith(f"/{name}"):
            break
    assert stops[0].endswith("#main") or "Skip" in stops[0], stops[:3]
    assert stops[-1].endswith(f"/{name}"), stops
    ActionChains(driver).send_keys(Keys.ENTER).perform()
    wait(driver, lambda: driver.current_url.endswith(f"/{name}"), "Enter opens the send")


def check_answers():
    """Checks what every answer has, and whom the console does not answer."""
    host = urllib.parse.urlsplit(ADDRESS).netloc

    def ask(method, target, headers=None, body=None):
        connection = http.client.HTTPConnection(host, timeout=60)
        connection.request(method, target, body, headers or {})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer

    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for method, target, headers, status in [
            ("GET", "/", {}, 200), ("GET", "/assets/console.js", {}, 200), ("GET", "/nothing", {}, 404), ("GET", f"/apps/{APP}/sends/none", {}, 404),
            ("GET", "/apps/other/sends", {}, 404), ("DELETE", "/", {}, 405), ("HEAD", "/", {}, 200), ("GET", "/", {"Host": "rebound.example"}, 421),
            ("POST", "/sign-in", form | {"Origin": "https://evil.example"}, 403), ("POST", "/sign-in", form | {"Origin": "null"}, 403),
            ("POST", "/sign-in", {"Content-Type": "text/plain"}, 415), ("POST", f"/apps/{APP}/routes", form, 303)]:
        answer = ask(method, target, headers, "" if method == "POST" else None)
        assert answer.status == status, f"{method} {target} {headers}: {answer.status}"
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy, policy
        assert "frame-ancestors 'none'" in policy and "form-action 'self'" in policy and "base-uri 'none'" in policy, policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["Cache-Control"] == "no-store", target


def sign_in(driver):
    driver.get(f"{ADDRESS}/sign-in?next=/apps/{APP}/sends")
    field = driver.find_element(By.ID, "sign-in-app")
    field.clear()
    field.send_keys(APP)
    driver.find_element(By.NAME, "key").send_keys(KEY)
    driver.find_element(By.CSS_SELECTOR, "main button").click()
    wait(driver, lambda: "/sign-in" not in driver.current_url, "signing in leads to the page")


def act(driver):
    """Replays and removes dead letters, settles a quarantine, and forgets a user and a device."""
    def said(words):
        def shown():
            notices = driver.find_elements(By.CSS_SELECTOR, ".notice")
            return notices and words in notices[0].text
        wait(driver, shown, words)

    driver.get(path("dead-letters?cause=poison"))
    assert len(driver.find_elements(By.NAME, "letter")) == 2
    press(driver, "Replay all of this filter")
    asked(driver, "Replay 2 dead letters?", "Nothing has been done yet.")
    press(driver, "Replay them")
    said("2 letters were replayed.")
    (box,) = driver.find_elements(By.NAME, "letter")
    box.click()
    press(driver, "Remove the selected")
    asked(driver, "Remove 1 dead letter for good?", "neither looked at nor replayed")
    press(driver, "Remove it")
    said("1 letter was removed.")
    assert "There are no such dead letters." in text(driver)

    # What the overview calls failing leads to where it is settled.
    driver.get(path(""))
    follow(driver, "shop/apns/production")
    on(driver, "Routes")
    follow(driver, "Settle its quarantine")
    on(driver, "Quarantine")
    shown = text(driver)
    assert "25 of 50 answers called a token bad" in shown and "“BadDeviceToken”" in shown, shown
    press(driver, "Confirm: remove their devices")
    asked(driver, "Remove the devices of 25 tokens for good?", "shop/apns/production has 25 tokens in quarantine.")
    # Who has second thoughts removes nothing.
    follow(driver, "Go back")
    on(driver, "Quarantine")
    press(driver, "Confirm: remove their devices")
    asked(driver, "Remove the devices of 25 tokens for good?", "Nothing has been done yet.")
    press(driver, "Remove their devices")
    said("25 deleted")
    assert "No token is in quarantine." in text(driver)

    driver.get(path("devices?user=ada"))
    assert len(driver.find_elements(By.CSS_SELECTOR, "section h2")) == 3
    press(driver, "Forget this user")
    asked(driver, "Forget the user ada?", "2 devices of this user")
    press(driver, "Forget this user")
    said("ada is forgotten, with 2 devices.")
    driver.get(path("devices?device=phone-27"))
    press(driver, "Forget this device")
    asked(driver, "Forget the device phone-27?", "until its app registers it again")
    press(driver, "Forget this device")
    said("phone-27 is forgotten.")


def asked(driver, question, words):
    """Waits for the page that asks before an act."""
    on(driver, question)
    assert words in text(driver), text(driver)


def on(driver, heading):
    wait(driver, lambda: driver.find_element(By.TAG_NAME, "h1").text == heading, heading)


def press(driver, words):
    """Clicks a button, and waits until its page has gone."""
    click(driver, lambda: next((each for each in driver.find_elements(By.TAG_NAME, "button") if each.text == words), None), words)


def follow(driver, words):
    """Clicks a link, and waits until its page has gone."""
    click(driver, lambda: driver.find_element(By.LINK_TEXT, words), words)


def click(driver, find, words):
    # A page that keeps itself up to date would replace what is clicked, and no page that was left may be read.
    page = driver.find_element(By.TAG_NAME, "html")

    def clicked():
        if element := find():
            element.click()
        return element

    def gone():
        try:
            return not page.is_enabled()
        except StaleElementReferenceException:
            return True
        except WebDriverException as error:
            # What Chromium says in the moment in which the page is replaced.
            if "does not belong to the document" in str(error):
                return True
            raise
    wait(driver, clicked, f"a click on {words}")
    wait(driver, gone, f"the page after {words}")


main()
