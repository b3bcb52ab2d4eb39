"""Makes the pictures of apus-console's pages in Chromium.

Arguments: the console's address, an admin key of the app demo, the folder for the pictures, one for Chromium's profile, and the id of a
running send.
"""

import base64
import pathlib
import sys
import time

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

ADDRESS, KEY, FOLDER, PROFILE, SEND = sys.argv[1:6]
APP = f"{ADDRESS}/apps/demo"
# Long pages are cut here.
HEIGHT_MAX = 1500


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900", "--hide-scrollbars",
                     "--disable-dev-shm-usage", f"--user-data-dir={PROFILE}"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


def keep(driver, name):
    time.sleep(1)
    height = min(HEIGHT_MAX, driver.execute_script("return document.querySelector('.frame').getBoundingClientRect().bottom"))
    clip = {"x": 0, "y": 0, "width": 1280, "height": max(480, height), "scale": 1}
    picture = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    (pathlib.Path(FOLDER) / f"console-{name}.png").write_bytes(base64.b64decode(picture["data"]))
    print(f"{FOLDER}/console-{name}.png")


def press(driver, words):
    next(each for each in driver.find_elements(By.TAG_NAME, "button") if each.text == words).click()
    time.sleep(1)


def main():
    driver = browser()
    try:
        scheme = {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        driver.get(f"{ADDRESS}/sign-in")
        driver.find_element(By.ID, "sign-in-app").clear()
        driver.find_element(By.ID, "sign-in-app").send_keys("demo")
        driver.find_element(By.NAME, "key").send_keys(KEY)
        keep(driver, "sign-in")
        driver.find_element(By.CSS_SELECTOR, "main button").click()
        time.sleep(1)

        pages = {
            "overview": ADDRESS, "sends": f"{APP}/sends", "send": f"{APP}/sends/{SEND}", "devices": f"{APP}/devices?user=user-3",
            "topics": f"{APP}/topics?expression='news'%20in%20topics", "routes": f"{APP}/routes",
            "dead-letters": f"{APP}/dead-letters", "quarantine": f"{APP}/quarantine", "audit": f"{APP}/audit",
        }
        for name, address in pages.items():
            driver.get(address)
            keep(driver, name)

        driver.get(f"{APP}/compose")
        Select(driver.find_element(By.ID, "audience")).select_by_value("topic")
        for field, words in [("names", "news"), ("title", "The swifts are back"), ("body", "They were seen over the old town this morning.")]:
            driver.find_element(By.ID, field).send_keys(words)
        press(driver, "Preview")
        keep(driver, "compose")
        press(driver, "Send")
        keep(driver, "question")
    finally:
        driver.quit()


main()
